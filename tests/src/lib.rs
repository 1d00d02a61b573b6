//! What the black-box tests are made of: the real binary as processes that can be killed, a worker
//! whose tools count their own starts, and a client.
//!
//! Nothing here knows how Stepwell works inside. Everything waits for a condition with a deadline.
//! Whatever is started ends with the test: processes are killed when they are dropped, folders are
//! removed. What processes wrote is printed when they are dropped, which the test runner shows for
//! tests that failed.

mod api;
mod cli;
mod http;
mod ledger;
mod model;
mod paths;
mod ports;
mod process;
mod server;
mod stage;
mod store;
mod wait;
mod worker;

pub use api::{Api, Ev, Watch, Watched, agent_with};
pub use cli::{Cli, Ran};
pub use http::{HttpResponse, SseEvent, get};
pub use ledger::{Ledger, Started};
pub use model::MockModel;
pub use paths::{counting_worker, stepwell};
pub use ports::free_address;
pub use process::{Process, is_alive, until_caught};
pub use server::{Refused, Server};
pub use stage::{Stage, StageOptions};
pub use store::{Look, look};
pub use wait::{POLL, SOON, until, until_within};
pub use worker::CountingWorker;
