//! Prints NAME=ok or NAME=WHAT WENT WRONG for each check. Arguments: `features URL WEB_URL`, `secure PLAIN TLS FOLDER HTTPS` or
//! `restarts URL WEB_URL`, and names of checks, without which all run. A line `please VERB OBJECT` asks the driver to
//! do that to the server; it answers `done`.

mod consuming;
mod entries;
mod producing;
mod restarts;
mod schemas;
mod secure;
mod support;
mod topics;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use support::{connect, Checked, Scene};

const PATIENCE: Duration = Duration::from_secs(60);

/// The checks are boxed, because one future that holds all of them would overflow the stack.
async fn say(name: &str, wanted: &[String], check: Pin<Box<dyn Future<Output = Checked>>>) {
    if !wanted.is_empty() && !wanted.iter().any(|each| each == name) {
        return;
    }
    let outcome = match tokio::time::timeout(PATIENCE, check).await {
        Ok(Ok(())) => "ok".to_owned(),
        Ok(Err(error)) => format!("{error}").replace('\n', " "),
        Err(_) => "no end".to_owned(),
    };
    println!("{name}={outcome}");
}

macro_rules! run {
    ($scene:expr, $wanted:expr, $($group:ident :: $check:ident),+ $(,)?) => {
        $(say(stringify!($check), $wanted, Box::pin($group::$check($scene.clone()))).await;)+
    };
}

#[tokio::main]
async fn main() -> Checked {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, first, second, rest @ ..] = arguments.as_slice() else {
        return Err("arguments: MODE and two addresses".into());
    };
    if mode == "secure" {
        let [folder, https, wanted @ ..] = rest else {
            return Err("no folder or no HTTPS URL".into());
        };
        let site =
            secure::Site { plain: first.clone(), tls: second.clone(), folder: folder.clone(), https: https.clone() };
        run!(
            site,
            wanted,
            secure::token,
            secure::token_over_tls,
            secure::tls_unchecked,
            secure::password,
            secure::stranger_server,
            secure::bad_credentials,
            secure::not_allowed,
            secure::admin_over_tls,
            secure::renewed,
        );
        return Ok(());
    }
    let scene = Scene { url: first.clone(), web: second.clone(), client: connect(first).await? };
    if mode == "restarts" {
        run!(
            scene,
            rest,
            restarts::killed_when_idle,
            restarts::killed_with_batches,
            restarts::killed_once,
            restarts::killed_while_sending
        );
        return Ok(());
    }
    run!(
        scene,
        rest,
        producing::sent_and_received,
        producing::sent_without_waiting,
        producing::sent_by_the_client,
        producing::batched,
        producing::compressed,
        producing::metadata_kept,
        producing::delayed,
        producing::deduplicated,
        producing::name_taken,
        producing::access_modes,
        producing::queue_full,
        producing::too_large,
        producing::not_persistent,
        consuming::exclusive,
        consuming::shared,
        consuming::priorities,
        consuming::failover,
        consuming::key_shared,
        consuming::nacked,
        entries::nacked_in_a_batch,
        entries::batch_acknowledged,
        entries::batch_acknowledged_up_to,
        entries::begun_in_a_batch,
        entries::small_window,
        consuming::forgotten,
        consuming::dead_letters,
        consuming::cumulative,
        consuming::stats,
        consuming::seeking,
        consuming::last_id,
        consuming::unsubscribed,
        consuming::readers,
        consuming::reader_seeks,
        topics::partitions,
        topics::several_topics,
        topics::pattern,
        topics::looked_up,
        topics::missing,
        topics::bad_names,
        topics::unacknowledged_limit,
        topics::compacted,
        topics::unloaded,
        topics::deleted,
        topics::unencrypted,
        topics::terminated,
        schemas::records,
        schemas::primitives,
        schemas::none,
    );
    Ok(())
}
