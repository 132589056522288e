//! The admin HTTP endpoints (rouille).
