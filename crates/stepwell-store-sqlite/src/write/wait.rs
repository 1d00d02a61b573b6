//! Waiting for messages on a thread of one's own, but not for ever.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::moment;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Takes what comes, up to `limit`; says how many came, 0 when nobody sends any more. `None` when
/// nothing came for so long.
pub(super) fn receive_within<T>(
    messages: &mut mpsc::Receiver<T>,
    into: &mut Vec<T>,
    limit: usize,
    patience: Duration,
) -> Option<usize> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let begin = moment();
    loop {
        match messages.poll_recv_many(&mut context, into, limit) {
            Poll::Ready(count) => return Some(count),
            Poll::Pending => {}
        }
        let left = patience.saturating_sub(begin.elapsed());
        if left.is_zero() {
            return None;
        }
        thread::park_timeout(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_is_taken_and_an_end_is_no_silence() {
        let (sender, mut messages) = mpsc::channel(8);
        let (mut into, never) = (Vec::new(), Duration::MAX);
        assert_eq!(receive_within(&mut messages, &mut into, 8, Duration::ZERO), None);
        let sending = thread::spawn(move || sender.blocking_send(7));
        assert_eq!(receive_within(&mut messages, &mut into, 8, never), Some(1));
        assert_eq!(into, [7]);
        sending.join().unwrap().unwrap();
        assert_eq!(receive_within(&mut messages, &mut into, 8, never), Some(0));
    }
}
