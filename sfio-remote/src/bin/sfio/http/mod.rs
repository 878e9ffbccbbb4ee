//! A small HTTP server for the pages of this program: few connections, and nobody may keep one of them waiting.

mod impatient;

use std::error::Error;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use hyper::body::{Body, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::exit::{Exit, Failure, OrFail as _};
use impatient::Impatient;

/// How long a request may take to come.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// How long a reader may take nothing of an answer.
const STALL_LIMIT: Duration = Duration::from_secs(10);
/// How long answers under way may take when the server ends.
const FAREWELL: Duration = Duration::from_secs(1);

/// Of one server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// How many may be connected at once; others wait.
    pub(crate) connections: usize,
    /// How long a connection may last.
    pub(crate) lasting: Duration,
    /// Whether a connection may bring several requests.
    pub(crate) keep_alive: bool,
}

/// Listens at the address that `option` of the command line names.
pub(crate) async fn bind(option: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.or_fail(Exit::Input, format!("{option} {address}"))
}

/// Answers requests until it is dropped, or until `end` comes; then answers under way get a moment more.
pub(crate) async fn serve<R, B>(
    listener: TcpListener,
    limits: Limits,
    end: impl Future<Output = ()>,
    respond: impl Fn(Request<Incoming>) -> R + Clone + Send + 'static,
) where
    R: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let mut connections = JoinSet::new();
    let mut end = pin!(end);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept(), if connections.len() < limits.connections => accepted,
            Some(_) = connections.join_next() => continue,
            () = &mut end => break,
        };
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(converse(stream, limits, respond.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "a page's socket");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    // Who has not taken its answer by then does without.
    let _ = timeout(FAREWELL, connections.join_all()).await;
}

async fn converse<R, B>(
    stream: TcpStream,
    limits: Limits,
    respond: impl Fn(Request<Incoming>) -> R + Send + 'static,
) where
    R: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let service = service_fn(move |request| {
        let answer = respond(request);
        async move { Ok::<_, std::convert::Infallible>(answer.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_LIMIT)
        .keep_alive(limits.keep_alive)
        .serve_connection(TokioIo::new(Impatient::new(stream, STALL_LIMIT)), service);
    if let Ok(Err(error)) = timeout(limits.lasting, connection).await {
        tracing::debug!(%error, "a reader of a page");
    }
}
