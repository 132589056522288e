//! Other programs as clients: kcat, and the Python scripts of tests/clients.

use super::tool;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// Whether kcat is here; says so once where its tests are skipped.
pub fn has_kcat() -> bool {
    static HERE: OnceLock<bool> = OnceLock::new();
    *HERE.get_or_init(|| {
        let here = Command::new("kcat").arg("-V").output().is_ok_and(|output| output.status.success());
        if !here {
            // Past the test harness's capture, so that a person sees it.
            let _ = writeln!(std::io::stderr(), "kcat is not installed: its tests were skipped");
        }
        here
    })
}

/// Runs kcat with `input` on its standard input and gives what it printed.
#[track_caller]
pub fn kcat(arguments: &[&str], input: &str) -> String {
    let mut command = Command::new("timeout");
    command.arg("60").arg("kcat").args(arguments);
    run(command, input)
}

/// Runs a script of tests/clients with the interpreter that has the Kafka clients.
#[track_caller]
pub fn python(script: &str, arguments: &[&str]) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(script);
    let mut command = Command::new("timeout");
    command.arg("120").arg(tool("python")).arg(path).args(arguments);
    run(command, "")
}

#[track_caller]
fn run(mut command: Command, input: &str) -> String {
    // Cargo lets a test find the librdkafka that was built for it; other programs are to use their own.
    command.env_remove("LD_LIBRARY_PATH");
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("the input is taken");
    let Output { status, stdout, stderr } = child.wait_with_output().expect("the command ends");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?} ended with {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}
