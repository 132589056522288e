//! Who we are: cluster id, broker ids, advertised addresses, producer id blocks.
