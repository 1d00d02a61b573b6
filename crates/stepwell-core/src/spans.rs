//! The span tree of a session.
