//! The slog logger: levels and formats.
