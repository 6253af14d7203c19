//! Every interleaving of a server that uses this crate with clients that copy whatever they have.
//!
//! The kernel is a set of capabilities, each with its holder; a revoke takes one of them at a time, so that
//! holders act in between. One holder, the hoarder, is no client and never ends. What must hold:
//!
//! * When a client has been taken apart, no capability with its badge exists, and nobody holds the memory
//!   that it shared with the server.
//! * A message counts as its sender's or as nobody's, whenever it arrives.
//!
//! The model finds what is planted: identifiers as badges, an endpoint that is deleted and not revoked,
//! shared memory that is given on as soon as its client is gone, a place that is free at once.

use authority::{Badge, Badges, Part, Parts, Step, Teardown};
use stateright::{Checker, Model, Property};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Number of a client; no two have the same, however many there were before.
type Client = u8;
/// Number of a piece of shared memory.
type Frame = u8;

/// Clients in all, and at a time. A badge's place has two lives.
const CLIENTS: Client = 3;
const AT_ONCE: u32 = 2;
/// Who keeps what others have given, and speaks with it.
const HOARDER: Client = CLIENTS;
/// Messages on their way.
const QUEUE: usize = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// Badges are the numbers of places, without their lives.
    Identifiers,
    /// The endpoint is deleted, but not revoked.
    DeletedOnly,
    /// Shared memory is given to the next client without being revoked.
    GivenOn,
    /// The place of a badge is free as soon as its client ends.
    FreeAtOnce,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Cap {
    Endpoint(Badge),
    Session(Frame),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    badges: Badges<Client>,
    /// Those that speak.
    live: BTreeMap<Client, (Badge, Frame)>,
    /// Those that are being taken apart.
    ending: BTreeMap<Client, (Teardown, Badge, Frame)>,
    /// What the clients and the hoarder hold.
    held: BTreeSet<(Client, Cap)>,
    frames: BTreeSet<Frame>,
    /// Badge and true sender.
    messages: VecDeque<(Badge, Client)>,
    born: Client,
    /// A message came when its sender was gone.
    late: bool,
    broken: Option<&'static str>,
}

#[derive(Clone, PartialEq, Debug)]
enum Action {
    Start,
    Copy(Cap),
    Send(Badge),
    Receive,
    End(Client),
    Work(Client),
}

struct Server {
    flaw: Flaw,
}

impl Server {
    fn start(&self, world: &mut World) {
        let client = world.born;
        let Some(badge) = world.badges.give(client) else { return };
        let frame = world.frames.pop_first().unwrap_or(client);
        world.born += 1;
        if world.held.iter().any(|(_, cap)| *cap == Cap::Endpoint(badge)) {
            world.broken = Some("somebody has the badge of a new client");
        }
        if world.held.iter().any(|(_, cap)| *cap == Cap::Session(frame)) {
            world.broken = Some("somebody has the memory of a new client");
        }
        world.live.insert(client, (badge, frame));
        world.held.insert((client, Cap::Endpoint(badge)));
        world.held.insert((client, Cap::Session(frame)));
    }

    /// Whose a message with this badge is.
    fn resolve(&self, world: &World, badge: Badge) -> Option<Client> {
        if self.flaw != Flaw::Identifiers {
            return world.badges.who(badge.number().into());
        }
        let place = |badge: Badge| badge.number() & 0xffff;
        let mut live = world.live.iter();
        live.find(|(_, (own, _))| place(*own) == place(badge)).map(|(client, _)| *client)
    }

    fn receive(&self, world: &mut World) {
        let Some((badge, sender)) = world.messages.pop_front() else { return };
        match self.resolve(world, badge) {
            Some(client) if client != sender => {
                world.broken = Some("a message counts as another client's");
            }
            Some(client) if !world.live.contains_key(&client) => {
                world.broken = Some("somebody speaks for a client that has ended");
            }
            Some(_) => {}
            None => world.late = true,
        }
    }

    fn end(&self, world: &mut World, client: Client) {
        let Some((badge, frame)) = world.live.remove(&client) else { return };
        let Some(mut teardown) = world.badges.end(badge, Parts::ALL) else { return };
        if self.flaw == Flaw::FreeAtOnce {
            let mut all = teardown.clone();
            while all.step().is_some() {
                all.done(false);
            }
            all.finish(&mut world.badges);
            teardown = all;
        }
        world.ending.insert(client, (teardown, badge, frame));
    }

    /// One bounded piece of work.
    fn work(&self, world: &mut World, client: Client) {
        let Some((mut teardown, badge, frame)) = world.ending.remove(&client) else { return };
        let mut more = false;
        match teardown.step() {
            Some(Step::Revoke(Part::Endpoint)) if self.flaw != Flaw::DeletedOnly => {
                more = revoke_one(world, Cap::Endpoint(badge));
            }
            Some(Step::Revoke(Part::Session)) if self.flaw != Flaw::GivenOn => {
                more = revoke_one(world, Cap::Session(frame));
            }
            // What was in its CSpace goes with that; what it gave to others does not.
            Some(Step::Release(Part::CSpace)) => world.held.retain(|(holder, _)| *holder != client),
            Some(Step::Release(Part::Session)) => {
                world.frames.insert(frame);
            }
            _ => {}
        }
        teardown.done(more);
        if !teardown.finish(&mut world.badges) {
            world.ending.insert(client, (teardown, badge, frame));
            return;
        }
        let left = |cap| world.held.iter().any(|(_, held)| *held == cap);
        if left(Cap::Endpoint(badge)) {
            world.broken = Some("a badge has outlived its client");
        }
    }
}

/// Takes a capability from one of its holders. Are there more?
fn revoke_one(world: &mut World, cap: Cap) -> bool {
    let holders: Vec<_> = world.held.iter().copied().filter(|(_, held)| *held == cap).collect();
    if let Some(first) = holders.first() {
        world.held.remove(first);
    }
    holders.len() > 1
}

impl Model for Server {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            badges: Badges::with_limits(AT_ONCE, 2),
            live: BTreeMap::new(),
            ending: BTreeMap::new(),
            held: BTreeSet::new(),
            frames: BTreeSet::new(),
            messages: VecDeque::new(),
            born: 0,
            late: false,
            broken: None,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.broken.is_some() {
            return;
        }
        if world.born < CLIENTS {
            actions.push(Action::Start);
        }
        let acts = |holder: &Client| *holder == HOARDER || world.live.contains_key(holder);
        for &(_, cap) in world.held.iter().filter(|(holder, _)| acts(holder)) {
            // What another client could do with it, the hoarder can.
            if !world.held.contains(&(HOARDER, cap)) {
                actions.push(Action::Copy(cap));
            }
            if let (Cap::Endpoint(badge), true) = (cap, world.messages.len() < QUEUE) {
                actions.push(Action::Send(badge));
            }
        }
        if !world.messages.is_empty() {
            actions.push(Action::Receive);
        }
        actions.extend(world.live.keys().map(|&client| Action::End(client)));
        actions.extend(world.ending.keys().map(|&client| Action::Work(client)));
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Start => self.start(&mut next),
            Action::Copy(cap) => drop(next.held.insert((HOARDER, cap))),
            Action::Send(badge) => {
                let owner = |(_, (own, _)): &(&Client, &(Badge, Frame))| *own == badge;
                let live = next.live.iter().find(owner).map(|(client, _)| *client);
                let ending = next.ending.iter().find(|(_, (_, own, _))| *own == badge);
                let sender = live.or(ending.map(|(client, _)| *client)).unwrap_or(HOARDER);
                next.messages.push_back((badge, sender));
            }
            Action::Receive => self.receive(&mut next),
            Action::End(client) => self.end(&mut next, client),
            Action::Work(client) => self.work(&mut next, client),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("holds", |_, world: &World| world.broken.is_none()),
            Property::sometimes("all clients come and go", |_, world: &World| {
                world.born == CLIENTS && world.live.is_empty() && world.ending.is_empty()
            }),
            Property::sometimes("a message comes too late", |_, world: &World| world.late),
        ]
    }
}

fn check(flaw: Flaw) -> (usize, Option<&'static str>) {
    let checker = Server { flaw }.checker().threads(2).spawn_bfs().join();
    let found = checker.discovery("holds").map(|path| path.last_state().clone());
    if flaw == Flaw::None {
        checker.assert_properties();
    }
    (checker.unique_state_count(), found.and_then(|world| world.broken))
}

#[test]
fn nothing_with_a_badge_outlives_its_client() {
    let (states, found) = check(Flaw::None);
    assert_eq!(found, None);
    // It has seen something: the other tests say what else there is to be seen.
    assert!(states > 100_000, "{states} states");
}

#[test]
fn flaws_are_found() {
    assert_eq!(check(Flaw::Identifiers).1, Some("a message counts as another client's"));
    assert_eq!(check(Flaw::DeletedOnly).1, Some("a badge has outlived its client"));
    assert_eq!(check(Flaw::GivenOn).1, Some("somebody has the memory of a new client"));
    assert!(check(Flaw::FreeAtOnce).1.is_some());
}
