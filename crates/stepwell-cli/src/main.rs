//! The `stepwell` binary: reads the command line and hands over.
//!
//! Only here adapters and engine are put together (`serve`, and in memory `replay --against`); every
//! other command is a client of the gRPC API.

mod args;
mod client;
mod commands;
mod complete;
mod config;
mod demo;
mod exit;
mod mock_model;
mod out;
mod progress;
mod serve;
mod time;
mod view;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Cli;
use crate::exit::Exit;

fn main() -> ExitCode {
    stepwell_alloc::keep_freed_memory();
    complete::answer_shell();
    let cli = Cli::parse();
    // Commands that tools run must not inherit what our parent left open. All else may be given a file
    // as an open handle: `verify <(…)`.
    if cli.command.runs_tools() {
        stepwell_worker::close_inherited_handles();
    }
    let color = cli.global.color;
    let exit = run(cli).unwrap_or_else(|error| {
        let exit = exit::of_error(&error);
        if exit != Exit::Ok {
            out::report_error(color, &error);
        }
        exit
    });
    exit.into()
}

fn run(cli: Cli) -> anyhow::Result<Exit> {
    let runtime = stepwell_runtime::system::async_runtime()?;
    let exit = runtime.block_on(Box::pin(commands::run(cli)));
    // A prompt that waits for the keyboard must not hold the process.
    runtime.shutdown_background();
    exit
}
