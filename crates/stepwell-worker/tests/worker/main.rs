//! The built-in tools from outside, as a host calls them.
#![cfg(test)]

mod files;
mod paths;
mod sandbox_cases;
mod search;
mod shell;
mod support;
mod survive;
mod toolbox;
