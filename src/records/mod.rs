//! Record batches: view, walk, validate, stamp, compress.
