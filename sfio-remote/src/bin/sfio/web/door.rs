//! Who is let in, and to what.
//!
//! A request must name the token as the first part of its path, and an address or `localhost` as its host: a name would
//! be that of somebody else's page, which has been made to lead to this machine (DNS rebinding). Any other request gets
//! the same answer, which tells nothing.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode};

use super::assets::{self, Asset};
use super::body::PageBody;
use super::hub::Hub;
use super::token::Token;

/// What the page may load and do: its own parts, its own events, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// On every answer. The token stands in the address, so that no other page may learn it from a referrer.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// The name of the stream of events.
const EVENTS: &str = "events";
const EVENTS_TYPE: &str = "text/event-stream";
const TEXT: &str = "text/plain; charset=utf-8";

/// The door of a page.
pub(super) struct Door {
    token: Token,
    hub: Arc<Hub>,
}

impl Door {
    pub(super) fn new(token: Token, hub: Arc<Hub>) -> Door {
        Door { token, hub }
    }

    pub(super) fn answer<T>(&self, request: &Request<T>) -> Response<PageBody> {
        match self.admitted(request) {
            None => answer(StatusCode::NOT_FOUND, None, PageBody::Whole("".into())),
            Some(_) if !matches!(*request.method(), Method::GET | Method::HEAD) => refusal(),
            Some(EVENTS) => self.events(request.method()),
            Some(name) => match assets::find(name) {
                Some(asset) => whole(asset, request.method()),
                None => answer(StatusCode::NOT_FOUND, None, PageBody::Whole("".into())),
            },
        }
    }

    /// What is asked for by somebody who knows the token and came directly.
    fn admitted<'a, T>(&self, request: &'a Request<T>) -> Option<&'a str> {
        let (token, name) = request.uri().path().strip_prefix('/')?.split_once('/')?;
        (self.token.is(token) && came_directly(request)).then_some(name)
    }

    fn events(&self, method: &Method) -> Response<PageBody> {
        if method == Method::HEAD {
            return answer(StatusCode::OK, Some(EVENTS_TYPE), PageBody::Whole("".into()));
        }
        match self.hub.join() {
            Some(viewer) => answer(StatusCode::OK, Some(EVENTS_TYPE), PageBody::Events(viewer)),
            None => {
                let words = "too many watch already; close one of the pages\n";
                answer(StatusCode::SERVICE_UNAVAILABLE, Some(TEXT), PageBody::Whole(words.into()))
            }
        }
    }
}

/// Whether the browser was told an address and not a name.
fn came_directly<T>(request: &Request<T>) -> bool {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let host: Option<Authority> = host.to_str().ok().and_then(|host| host.parse().ok());
    host.is_some_and(|host| is_direct(&host)) && request.uri().authority().is_none_or(is_direct)
}

fn is_direct(authority: &Authority) -> bool {
    let host = authority.host();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_address = bare.parse::<IpAddr>().is_ok();
    !authority.as_str().contains('@') && (is_address || host.eq_ignore_ascii_case("localhost"))
}

fn whole(asset: &Asset, method: &Method) -> Response<PageBody> {
    let bytes = PageBody::Whole(asset.content.into());
    let mut response = answer(StatusCode::OK, Some(asset.content_type), bytes);
    if method == Method::HEAD {
        let length = HeaderValue::from(asset.content.len());
        response.headers_mut().insert(header::CONTENT_LENGTH, length);
        *response.body_mut() = PageBody::Whole("".into());
    }
    response
}

fn refusal() -> Response<PageBody> {
    let mut response =
        answer(StatusCode::METHOD_NOT_ALLOWED, Some(TEXT), PageBody::Whole("GET or HEAD\n".into()));
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

fn answer(status: StatusCode, content_type: Option<&'static str>, body: PageBody) -> Response<PageBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Some(content_type) = content_type {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door() -> (Door, String) {
        let token = Token::random().expect("random");
        let text = token.text().to_owned();
        (Door::new(token, Arc::new(Hub::default())), text)
    }

    fn ask(door: &Door, method: &str, path: &str, hosts: &[&str]) -> Response<PageBody> {
        let mut request = Request::builder().method(method).uri(path);
        for host in hosts {
            request = request.header("Host", *host);
        }
        door.answer(&request.body(()).expect("a request"))
    }

    fn status(door: &Door, method: &str, path: &str, hosts: &[&str]) -> u16 {
        ask(door, method, path, hosts).status().as_u16()
    }

    #[test]
    fn with_the_token_every_part_is_there_under_a_strict_policy() {
        let (door, token) = door();
        for asset in &assets::ASSETS {
            let answer = ask(&door, "GET", &format!("/{token}/{}", asset.name), &["127.0.0.1:8080"]);
            assert_eq!(answer.status(), StatusCode::OK);
            let header = |name: &str| answer.headers()[name].to_str().expect("text").to_owned();
            assert!(header("content-security-policy").starts_with("default-src 'none'; script-src 'self';"));
            assert!(!header("content-security-policy").contains("unsafe"));
            assert_eq!(
                (header("referrer-policy"), header("cache-control")),
                ("no-referrer".into(), "no-store".into())
            );
            assert_eq!(header("content-type"), asset.content_type);
        }
    }

    #[test]
    fn without_the_token_there_is_nothing_and_all_refusals_are_alike() {
        let (door, token) = door();
        let wrong = token.chars().rev().collect::<String>();
        let mut all = Vec::new();
        for path in [
            "/",
            "/page.js",
            "/events",
            "//",
            "*",
            &format!("/{wrong}/"),
            &format!("/{token}"),
            &format!("//{token}/"),
        ] {
            for method in ["GET", "HEAD", "POST", "OPTIONS"] {
                all.push(ask(&door, method, path, &["localhost"]));
            }
        }
        all.push(ask(&door, "GET", &format!("/{token}/other"), &["localhost"]));
        for answer in &all {
            assert_eq!((answer.status(), answer.headers()), (StatusCode::NOT_FOUND, all[0].headers()));
            assert!(matches!(answer.body(), PageBody::Whole(bytes) if bytes.is_empty()));
        }
    }

    #[test]
    fn a_name_that_was_made_to_lead_here_leads_to_nothing() {
        let (door, token) = door();
        let path = format!("/{token}/");
        for host in ["127.0.0.1", "127.0.0.1:9", "localhost:9", "LOCALHOST", "[::1]:9", "192.0.2.7:80"] {
            assert_eq!(status(&door, "GET", &path, &[host]), 200, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:80",
            "127.0.0.1.evil.example",
            "x@127.0.0.1",
            "localhost.evil",
            "",
            "[::1",
        ] {
            assert_eq!(status(&door, "GET", &path, &[host]), 404, "{host}");
        }
        assert_eq!(status(&door, "GET", &path, &[]), 404);
        assert_eq!(status(&door, "GET", &path, &["localhost", "evil.example"]), 404);
        assert_eq!(status(&door, "GET", &format!("http://evil.example{path}"), &["localhost"]), 404);
    }

    #[test]
    fn only_get_and_head_are_answered() {
        let (door, token) = door();
        for path in [format!("/{token}/"), format!("/{token}/events")] {
            for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"] {
                let answer = ask(&door, method, &path, &["localhost"]);
                assert_eq!(
                    (answer.status().as_u16(), &answer.headers()["allow"]),
                    (405, &HeaderValue::from_static("GET, HEAD"))
                );
            }
            let head = ask(&door, "HEAD", &path, &["localhost"]);
            assert!(
                head.status() == 200 && matches!(head.body(), PageBody::Whole(bytes) if bytes.is_empty())
            );
        }
    }

    #[test]
    fn when_too_many_watch_the_next_one_is_told() {
        let (door, token) = door();
        let path = format!("/{token}/events");
        let watching: Vec<_> =
            (0..super::super::hub::MAX_VIEWERS).map(|_| ask(&door, "GET", &path, &["localhost"])).collect();
        assert!(
            watching
                .iter()
                .all(|answer| answer.status() == 200 && answer.headers()["content-type"] == EVENTS_TYPE)
        );
        assert_eq!(status(&door, "GET", &path, &["localhost"]), 503);
        assert_eq!(status(&door, "HEAD", &path, &["localhost"]), 200);
    }
}
