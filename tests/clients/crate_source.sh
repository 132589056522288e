# Sourced by the judges that are crates: crate_source NAME VERSION puts the crate's source, with its tests, into ./source.
crate_source() {
    [ "$(cat fetched 2>/dev/null)" = "$1 $2" ] && return
    rm -rf source fetcher
    mkdir -p fetcher/src
    printf '[package]\nname = "fetcher"\nversion = "0.0.0"\nedition = "2021"\n\n[workspace]\n\n[dependencies]\n%s = { version = "=%s", default-features = false }\n' \
        "$1" "$2" >fetcher/Cargo.toml
    touch fetcher/src/lib.rs
    manifest=$(cargo metadata -q --format-version 1 --manifest-path fetcher/Cargo.toml |
        tr '"' '\n' | grep "/$1-$2/Cargo.toml\$" | head -n 1)
    cp -r "$(dirname "$manifest")" source
    chmod -R u+w source
    # A workspace of its own, wherever it lies.
    printf '\n[workspace]\n' >>source/Cargo.toml
    echo "$1 $2" >fetched
}
