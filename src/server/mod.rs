//! Sockets, threads, parked requests.
