//! Handles that a process was given by whoever started it.

/// Closes every inherited handle but standard input, output and error, so that no command started
/// later gets them. What this process opens itself is marked to be closed, but a terminal
/// multiplexer, a build tool or a service manager may hand on open pipes, sockets and files.
///
/// Call it as the first thing in `main` and nowhere else: it closes by number, so whatever the
/// process has opened by then is closed as well. Does nothing where there is no `/proc`.
pub fn close_inherited_handles() {
    const STANDARD_HANDLES: i32 = 3;
    let Ok(listing) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers: Vec<i32> = listing
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| *number >= STANDARD_HANDLES)
        .collect();
    for number in numbers {
        // The listing's own handle is among them and closed by now.
        let _ = nix::unistd::close(number);
    }
}
