//! A limit of time that moves on with every token.
//!
//! A timer of its own for each token costs more than reading the token. So there is one for the whole
//! answer, which is set anew only when it fires too early, or when the limit comes nearer.

use std::pin::{Pin, pin};

use tokio::time::{Instant, Sleep, sleep_until};

/// See the module.
pub(crate) struct Alarm {
    timer: Pin<Box<Sleep>>,
}

impl Alarm {
    /// An alarm whose first limit is about there.
    pub(crate) fn new(deadline: Instant) -> Self {
        Self { timer: Box::pin(sleep_until(deadline)) }
    }

    /// What `future` gives, or `None` when `deadline` passes before.
    pub(crate) async fn within<T>(
        &mut self,
        deadline: Instant,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        if deadline < self.timer.deadline() {
            self.timer.as_mut().reset(deadline);
        }
        let mut future = pin!(future);
        loop {
            tokio::select! {
                biased;
                outcome = &mut future => return Some(outcome),
                () = self.timer.as_mut() => {
                    if Instant::now() >= deadline {
                        return None;
                    }
                    self.timer.as_mut().reset(deadline);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn it_rings_at_the_limit_of_the_moment_and_not_at_an_earlier_one() {
        let far = Duration::from_secs(1_000);
        let mut alarm = Alarm::new(Instant::now());
        assert_eq!(alarm.within(Instant::now() + far, ready(1)).await, Some(1));
        // The timer is set for a moment that has passed; the limit is later.
        let later = Instant::now() + Duration::from_millis(20);
        assert_eq!(alarm.within(later, pending::<()>()).await, None);
        assert!(Instant::now() >= later);
        // It is over for this limit, and ready for the next.
        assert_eq!(alarm.within(Instant::now() + far, tokio::task::yield_now()).await, Some(()));
        let mut alarm = Alarm::new(Instant::now() + far);
        assert_eq!(alarm.within(Instant::now(), pending::<()>()).await, None, "it came nearer");
        assert_eq!(alarm.within(Instant::now(), ready(2)).await, Some(2), "what is there counts");
    }
}
