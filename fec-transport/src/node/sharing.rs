//! What the sessions of a node do together over a link that several of them cross.

use super::Node;
use crate::event::SessionId;
use crate::session::{News, Part, Session};

impl Node {
    /// Lets the sessions that share links with `origin` follow what has happened there.
    pub(super) fn pass_news_on(&mut self, origin: SessionId) {
        while let Some(news) =
            self.sessions.get_mut(&origin).and_then(|session| session.paths_mut().poll_news())
        {
            self.follow(origin, &news);
        }
    }

    fn follow(&mut self, origin: SessionId, news: &News) {
        let now = self.now;
        let concerned = self.sessions.iter_mut().filter(|(id, _)| news.concerns_origin() || **id != origin);
        let part =
            |(id, session): (&SessionId, &mut Session)| Some((*id, session.paths_mut().part(now, news)?));
        let before: Vec<(SessionId, Part)> = concerned.filter_map(part).collect();
        let is_alone = news.concerns_origin() && before.len() == 1;
        let after = Part::equal(before.iter().map(|(_, part)| *part));
        for ((id, before), rate) in before.iter().zip(after) {
            let Some(session) = self.sessions.get_mut(id) else { continue };
            if is_alone {
                session.paths_mut().keep_limit(now, news);
            } else {
                session.paths_mut().follow(now, news, rate / before.rate);
            }
        }
    }
}
