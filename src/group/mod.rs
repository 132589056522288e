//! Consumer groups: the classic protocol as pure transitions, and the service that persists them.
