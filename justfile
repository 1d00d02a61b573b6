# Thin names for `cargo xtask`; what they do is written there, in Rust.

# List the recipes.
default:
    @just --list

# Formatting, house checks, clippy, rustdoc.
check:
    cargo xtask check

# Install what is missing, build, run every test: `just test`, `just test -- -p stepwell-core`.
test *args:
    cargo xtask test {{args}}

# The house checks alone.
tidy:
    cargo xtask tidy

# The measured workload: `just bench`, `just bench --json`.
bench *args:
    cargo xtask bench {{args}}

# Random input for what reads models' answers: `just fuzz --seconds 600`.
fuzz *args:
    cargo xtask fuzz {{args}}

# A session that survives kill -9, on this machine, without a model.
demo *args:
    cargo run --package stepwell-cli --bin stepwell -- demo {{args}}

# Format all Rust code.
fmt:
    cargo fmt --all

# What is run before a change is merged.
ci:
    .ci/run
