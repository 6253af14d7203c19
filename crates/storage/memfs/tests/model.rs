//! Random operations on the file system and on a naive model of it give the same answers.

use memfs::{walk, Attr, Cred, Fs, Ino, Node, Walk};
use proptest::prelude::*;
use std::collections::BTreeMap;
use unixproto::files::{RENAME_EXCHANGE, RENAME_NOREPLACE};
use unixproto::Errno;

const ROOT: Cred = Cred::ROOT;
const ATTR: Attr = Attr { mode: 0o755, cred: ROOT, now: 0 };

/// A tree as nested maps; files are numbers, so that links show.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Tree {
    Dir(BTreeMap<String, Tree>),
    File(u32),
    Link(String),
}

#[derive(Default)]
struct Model {
    root: BTreeMap<String, Tree>,
    files: u32,
}

#[derive(Clone, Debug)]
enum Op {
    Create(String),
    Mkdir(String),
    Symlink(String, String),
    Link(String, String),
    Unlink(String),
    Rmdir(String),
    Rename(String, String, u32),
    Look(String),
}

fn parts(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty()).collect()
}

/// What a path leads to in the model: the path of the directory and the last name.
type Place = (Vec<String>, String);

impl Model {
    fn dir(&self, path: &[String]) -> Option<&BTreeMap<String, Tree>> {
        let mut at = &self.root;
        for name in path {
            match at.get(name)? {
                Tree::Dir(entries) => at = entries,
                _ => return None,
            }
        }
        Some(at)
    }
    fn dir_mut(&mut self, path: &[String]) -> &mut BTreeMap<String, Tree> {
        let mut at = &mut self.root;
        for name in path {
            match at.get_mut(name) {
                Some(Tree::Dir(entries)) => at = entries,
                _ => unreachable!("the path was resolved before"),
            }
        }
        at
    }
    fn get(&self, place: &Place) -> Option<&Tree> {
        self.dir(&place.0)?.get(&place.1)
    }

    /// Resolves a path by rewriting it until no link is left but perhaps the last name.
    fn resolve(&self, path: &str) -> Result<Place, Errno> {
        let mut todo: Vec<String> = parts(path).iter().map(|s| s.to_string()).collect();
        let mut at: Vec<String> = Vec::new();
        let mut links = 0;
        while !todo.is_empty() {
            let name = todo.remove(0);
            if todo.is_empty() {
                return Ok((at, name));
            }
            match self.dir(&at).and_then(|dir| dir.get(&name)) {
                None => return Err(Errno::ENOENT),
                Some(Tree::Dir(_)) => at.push(name),
                Some(Tree::File(_)) => return Err(Errno::ENOTDIR),
                Some(Tree::Link(text)) => {
                    links += 1;
                    if links > 40 {
                        return Err(Errno::ELOOP);
                    }
                    if text.starts_with('/') {
                        at.clear();
                    }
                    let mut new: Vec<String> = parts(text).iter().map(|s| s.to_string()).collect();
                    new.append(&mut todo);
                    todo = new;
                }
            }
        }
        unreachable!("paths of the test are not empty")
    }

    fn add(&mut self, path: &str, what: Tree) -> Result<(), Errno> {
        let place = self.resolve(path)?;
        if self.get(&place).is_some() {
            return Err(Errno::EEXIST);
        }
        self.dir_mut(&place.0).insert(place.1, what);
        Ok(())
    }

    fn remove(&mut self, path: &str, dir: bool) -> Result<(), Errno> {
        let place = self.resolve(path)?;
        match (self.get(&place).ok_or(Errno::ENOENT)?, dir) {
            (Tree::Dir(_), false) => return Err(Errno::EISDIR),
            (Tree::Dir(entries), true) if !entries.is_empty() => return Err(Errno::ENOTEMPTY),
            (Tree::File(_) | Tree::Link(_), true) => return Err(Errno::ENOTDIR),
            _ => {}
        }
        self.dir_mut(&place.0).remove(&place.1);
        Ok(())
    }

    fn rename(&mut self, old: &str, new: &str, flags: u32) -> Result<(), Errno> {
        let (from, to) = (self.resolve(old)?, self.resolve(new)?);
        let source = self.get(&from).ok_or(Errno::ENOENT)?.clone();
        let target = self.get(&to).cloned();
        let full = |place: &Place| {
            let mut path = place.0.clone();
            path.push(place.1.clone());
            path
        };
        if flags == RENAME_NOREPLACE && target.is_some() {
            return Err(Errno::EEXIST);
        }
        if to.0.starts_with(&full(&from)) {
            return Err(Errno::EINVAL);
        }
        if flags == RENAME_EXCHANGE {
            let target = target.ok_or(Errno::ENOENT)?;
            if from.0.starts_with(&full(&to)) {
                return Err(Errno::EINVAL);
            }
            self.dir_mut(&from.0).insert(from.1, target);
            self.dir_mut(&to.0).insert(to.1, source);
            return Ok(());
        }
        if from.0.starts_with(&full(&to)) {
            return Err(Errno::ENOTEMPTY);
        }
        let same_file =
            matches!((&source, &target), (Tree::File(a), Some(Tree::File(b))) if a == b);
        if from == to || same_file {
            return Ok(());
        }
        match (&source, &target) {
            (Tree::Dir(_), Some(Tree::Dir(entries))) if !entries.is_empty() => {
                return Err(Errno::ENOTEMPTY)
            }
            (Tree::Dir(_), Some(Tree::File(_) | Tree::Link(_))) => return Err(Errno::ENOTDIR),
            (Tree::File(_) | Tree::Link(_), Some(Tree::Dir(_))) => return Err(Errno::EISDIR),
            _ => {}
        }
        self.dir_mut(&from.0).remove(&from.1);
        self.dir_mut(&to.0).insert(to.1, source);
        Ok(())
    }

    fn run(&mut self, op: &Op) -> Result<(), Errno> {
        self.files += 1;
        match op {
            Op::Create(path) => self.add(path, Tree::File(self.files)),
            Op::Mkdir(path) => self.add(path, Tree::Dir(BTreeMap::new())),
            Op::Symlink(text, path) => self.add(path, Tree::Link(text.clone())),
            Op::Link(old, new) => {
                let source = self.resolve(old)?;
                let what = self.get(&source).ok_or(Errno::ENOENT)?.clone();
                let to = self.resolve(new)?;
                match (self.get(&to), &what) {
                    (Some(_), _) => Err(Errno::EEXIST),
                    (None, Tree::Dir(_)) => Err(Errno::EPERM),
                    // The model does not know links to symbolic links apart from copies.
                    _ => self.add(new, what),
                }
            }
            Op::Unlink(path) => self.remove(path, false),
            Op::Rmdir(path) => self.remove(path, true),
            Op::Rename(old, new, flags) => self.rename(old, new, *flags),
            Op::Look(path) => {
                let place = self.resolve(path)?;
                self.get(&place).map(|_| ()).ok_or(Errno::ENOENT)
            }
        }
    }
}

type Files = Fs<u8>;

/// So many inodes, for anybody.
fn all(all: usize) -> piecewise::Limits {
    piecewise::Limits { all, root: 0, user: all }
}

fn last(fs: &Files, path: &str) -> Result<(Ino, Vec<u8>, Option<Ino>), Errno> {
    let how = Walk {
        root: fs.root(),
        start: fs.root(),
        cred: ROOT,
        follow: false,
        resolve: Default::default(),
    };
    let found = walk(fs, &how, path.as_bytes())?;
    Ok((found.parent, found.name.to_vec(), found.node))
}

fn run(fs: &mut Files, op: &Op) -> Result<(), Errno> {
    let add = |fs: &mut Files, path: &str, node| {
        let (dir, name, _) = last(fs, path)?;
        fs.create(dir, &name, node, ATTR).map(|_| ())
    };
    match op {
        Op::Create(path) => add(fs, path, Node::File { size: 0, content: 0 }),
        Op::Mkdir(path) => {
            let (dir, name, _) = last(fs, path)?;
            fs.mkdir(dir, &name, ATTR).map(|_| ())
        }
        Op::Symlink(text, path) => add(fs, path, Node::Symlink(text.clone().into_bytes())),
        Op::Link(old, new) => {
            let ino = last(fs, old)?.2.ok_or(Errno::ENOENT)?;
            let (dir, name, _) = last(fs, new)?;
            fs.link(ino, dir, &name, &ROOT, 0)
        }
        Op::Unlink(path) => {
            let (dir, name, _) = last(fs, path)?;
            fs.unlink(dir, &name, &ROOT, 0)
        }
        Op::Rmdir(path) => {
            let (dir, name, _) = last(fs, path)?;
            fs.rmdir(dir, &name, &ROOT, 0)
        }
        Op::Rename(old, new, flags) => {
            let (from, old, _) = last(fs, old)?;
            let (to, new, _) = last(fs, new)?;
            fs.rename(from, &old, to, &new, *flags, &ROOT, 0)
        }
        Op::Look(path) => last(fs, path)?.2.map(|_| ()).ok_or(Errno::ENOENT),
    }
}

/// The names below a directory, in a form that both sides can make.
fn shape(fs: &Files, dir: Ino, out: &mut BTreeMap<String, &'static str>, prefix: &str) {
    let names: Vec<(String, Ino)> = fs
        .get(dir)
        .unwrap()
        .dir()
        .unwrap()
        .entries(0)
        .map(|entry| (String::from_utf8_lossy(entry.name).into_owned(), entry.ino))
        .collect();
    for (name, ino) in names {
        let path = format!("{prefix}/{name}");
        match &fs.get(ino).unwrap().node {
            Node::Dir(_) => {
                out.insert(path.clone(), "dir");
                assert_eq!(fs.path_of(ino).unwrap(), path.as_bytes());
                shape(fs, ino, out, &path);
            }
            Node::Symlink(_) => drop(out.insert(path, "link")),
            _ => drop(out.insert(path, "file")),
        }
    }
}

fn model_shape(
    dir: &BTreeMap<String, Tree>,
    out: &mut BTreeMap<String, &'static str>,
    prefix: &str,
) {
    for (name, tree) in dir {
        let path = format!("{prefix}/{name}");
        match tree {
            Tree::Dir(entries) => {
                out.insert(path.clone(), "dir");
                model_shape(entries, out, &path);
            }
            Tree::Link(_) => drop(out.insert(path, "link")),
            Tree::File(_) => drop(out.insert(path, "file")),
        }
    }
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 1..4)
        .prop_map(|names| format!("/{}", names.join("/")))
}

fn op() -> impl Strategy<Value = Op> {
    let text = prop_oneof![path(), path().prop_map(|path| path[1..].to_string())];
    prop_oneof![
        1 => path().prop_map(Op::Create),
        3 => path().prop_map(Op::Mkdir),
        1 => (text, path()).prop_map(|(text, path)| Op::Symlink(text, path)),
        1 => (path(), path()).prop_map(|(old, new)| Op::Link(old, new)),
        1 => path().prop_map(Op::Unlink),
        1 => path().prop_map(Op::Rmdir),
        3 => (path(), path(), prop::sample::select(vec![0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE]))
            .prop_map(|(old, new, flags)| Op::Rename(old, new, flags)),
        1 => path().prop_map(Op::Look),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn the_file_system_is_a_tree_of_names(ops in prop::collection::vec(op(), 1..60)) {
        let mut fs = Files::new(all(10_000), ATTR);
        let mut model = Model::default();
        for op in &ops {
            // Renaming one symbolic link over another name of it is beyond the model.
            if matches!(op, Op::Link(old, _) if matches!(model.resolve(old).ok().and_then(|p| model.get(&p).cloned()), Some(Tree::Link(_)))) {
                continue;
            }
            prop_assert_eq!(run(&mut fs, op), model.run(op), "{:?}", op);
            prop_assert_eq!(fs.validate(), Ok(()), "{:?}", op);
        }
        let (mut ours, mut theirs) = (BTreeMap::new(), BTreeMap::new());
        shape(&fs, fs.root(), &mut ours, "");
        model_shape(&model.root, &mut theirs, "");
        prop_assert_eq!(ours, theirs);
    }
}

#[test]
fn an_unlinked_file_lives_while_it_is_held() {
    let mut fs = Files::new(all(10), ATTR);
    let root = fs.root();
    let ino = fs.create(root, b"f", Node::File { size: 0, content: 7 }, ATTR).unwrap();
    fs.hold(ino);
    fs.unlink(root, b"f", &ROOT, 1).unwrap();
    assert_eq!(fs.get(ino).unwrap().nlink, 0);
    assert_eq!(fs.link(ino, root, b"g", &ROOT, 1), Err(Errno::ENOENT));
    fs.release(ino);
    assert!(fs.get(ino).is_err());
    assert_eq!(fs.used(), 1);
}

#[test]
fn readers_of_a_directory_keep_their_place() {
    let mut fs = Files::new(all(100), ATTR);
    let root = fs.root();
    for name in [b"a", b"b", b"c", b"d"] {
        fs.create(root, name, Node::Fifo, ATTR).unwrap();
    }
    let first: Vec<u64> = fs.get(root).unwrap().dir().unwrap().entries(0).map(|e| e.next).collect();
    fs.unlink(root, b"a", &ROOT, 0).unwrap();
    fs.create(root, b"e", Node::Fifo, ATTR).unwrap();
    let dir = fs.get(root).unwrap().dir().unwrap();
    let rest: Vec<&[u8]> = dir.entries(first[1]).map(|e| e.name).collect();
    assert_eq!(rest, [b"c", b"d", b"e"]);
}

#[test]
fn permissions_are_checked_on_the_way() {
    let user = Cred::user(5, 5);
    let mut fs = Files::new(all(100), ATTR);
    let root = fs.root();
    let closed = fs.mkdir(root, b"closed", Attr { mode: 0o700, ..ATTR }).unwrap();
    fs.create(closed, b"f", Node::Fifo, ATTR).unwrap();
    let tmp = fs.mkdir(root, b"tmp", Attr { mode: 0o1777, ..ATTR }).unwrap();
    fs.create(tmp, b"mine", Node::Fifo, Attr { cred: user.clone(), ..ATTR }).unwrap();
    fs.create(tmp, b"other", Node::Fifo, Attr { cred: Cred::user(6, 6), ..ATTR }).unwrap();
    let how =
        Walk { root, start: root, cred: user.clone(), follow: true, resolve: Default::default() };
    assert_eq!(walk(&fs, &how, b"/closed/f").err(), Some(Errno::EACCES));
    assert_eq!(walk(&fs, &how, b"/tmp/mine/x").err(), Some(Errno::ENOTDIR));
    assert_eq!(walk(&fs, &how, b"/tmp/mine/").err(), Some(Errno::ENOTDIR));
    assert_eq!(fs.unlink(tmp, b"other", &user, 0), Err(Errno::EPERM));
    assert_eq!(fs.unlink(tmp, b"mine", &user, 0), Ok(()));
    let made = fs.create(root, b"x", Node::Fifo, Attr { cred: user.clone(), ..ATTR });
    assert_eq!(made, Err(Errno::EACCES));
}

#[test]
fn paths_have_limits() {
    let mut fs = Files::new(all(100), ATTR);
    let root = fs.root();
    fs.create(root, b"loop", Node::Symlink(b"loop".to_vec()), ATTR).unwrap();
    fs.create(root, b"up", Node::Symlink(b"/".to_vec()), ATTR).unwrap();
    let how = Walk { root, start: root, cred: ROOT, follow: true, resolve: Default::default() };
    let error = |path: &[u8]| walk(&fs, &how, path).err();
    assert_eq!(error(b""), Some(Errno::ENOENT));
    assert_eq!(error(b"loop"), Some(Errno::ELOOP));
    assert_eq!(error(&[b'a'; 256]), Some(Errno::ENAMETOOLONG));
    assert_eq!(error(&b"/".repeat(4096)), Some(Errno::ENAMETOOLONG));
    assert_eq!(error(&b"/".repeat(4095)), None);
    for path in [&b"up"[..], b"up/", b"up/up//.", b"..", b"/.././up"] {
        assert_eq!(walk(&fs, &how, path).unwrap().node, Some(root), "{path:?}");
    }
}

/// A file in `/tmp` with this mode, of this user.
fn file(fs: &mut Files, dir: Ino, name: &[u8], mode: u32, cred: Cred) -> Ino {
    let node = Node::File { size: 0, content: 0 };
    fs.create(dir, name, node, Attr { mode, cred, now: 0 }).unwrap()
}

fn shared(fs: &mut Files) -> Ino {
    let root = fs.root();
    fs.mkdir(root, b"tmp", Attr { mode: 0o1777, ..ATTR }).unwrap()
}

#[test]
fn capabilities_replace_the_administrator() {
    use credentials::{CapSet, Capability};
    let mut fs = Files::new(all(100), ATTR);
    let tmp = shared(&mut fs);
    let secret = file(&mut fs, tmp, b"secret", 0o600, Cred::user(6, 6));
    let bare = Cred { caps: CapSet::NONE, ..ROOT };
    let with = |one: Capability| Cred { caps: CapSet::new(1 << one as u64), ..bare.clone() };
    let may = |cred: &Cred, wanted| fs.get(secret).unwrap().permits(cred, wanted).is_ok();
    assert!(may(&ROOT, memfs::READ | memfs::WRITE) && !may(&ROOT, memfs::EXEC));
    assert!(!may(&bare, memfs::READ));
    assert!(may(&with(Capability::DacReadSearch), memfs::READ));
    assert!(!may(&with(Capability::DacReadSearch), memfs::WRITE));
    assert!(may(&with(Capability::DacOverride), memfs::WRITE));
    assert_eq!(fs.set_mode(secret, 0o644, &bare, 0), Err(Errno::EPERM));
    assert_eq!(fs.set_mode(secret, 0o644, &with(Capability::Fowner), 0), Ok(()));
    assert_eq!(fs.set_owner(secret, Some(1), None, &bare, 0), Err(Errno::EPERM));
    assert_eq!(fs.set_owner(secret, Some(1), None, &with(Capability::Chown), 0), Ok(()));
    assert_eq!(fs.unlink(tmp, b"secret", &with(Capability::Fowner), 0), Ok(()));
}

#[test]
fn files_of_others_get_no_more_names() {
    let user = Cred::user(5, 5);
    let mut fs = Files::new(all(100), ATTR);
    let tmp = shared(&mut fs);
    let secret = file(&mut fs, tmp, b"secret", 0o644, ROOT);
    let open = file(&mut fs, tmp, b"open", 0o666, ROOT);
    let runs = file(&mut fs, tmp, b"runs", 0o4777, ROOT);
    assert_eq!(fs.link(secret, tmp, b"a", &user, 0), Err(Errno::EPERM));
    assert_eq!(fs.link(runs, tmp, b"a", &user, 0), Err(Errno::EPERM));
    assert_eq!(fs.link(open, tmp, b"a", &user, 0), Ok(()));
    assert_eq!(fs.link(secret, tmp, b"b", &ROOT, 0), Ok(()));
}

#[test]
fn links_of_others_in_shared_directories_are_not_followed() {
    let user = Cred::user(5, 5);
    let mut fs = Files::new(all(100), ATTR);
    let (root, tmp) = (fs.root(), shared(&mut fs));
    let link = || Node::Symlink(b"/".to_vec());
    fs.create(tmp, b"mine", link(), Attr { cred: user.clone(), ..ATTR }).unwrap();
    fs.create(tmp, b"other", link(), Attr { cred: Cred::user(6, 6), ..ATTR }).unwrap();
    fs.create(tmp, b"root", link(), ATTR).unwrap();
    let error = |cred: &Cred, path: &[u8]| {
        walk(
            &fs,
            &Walk {
                root,
                start: root,
                cred: cred.clone(),
                follow: true,
                resolve: Default::default(),
            },
            path,
        )
        .err()
    };
    assert_eq!(error(&user, b"/tmp/mine"), None);
    assert_eq!(error(&user, b"/tmp/root"), None);
    assert_eq!(error(&user, b"/tmp/other"), Some(Errno::EACCES));
    assert_eq!(error(&ROOT, b"/tmp/other"), Some(Errno::EACCES));
    // On the way it is followed, as on Linux.
    assert_eq!(error(&user, b"/tmp/other/tmp"), None);
}

#[test]
fn directories_of_others_keep_their_parent() {
    let user = Cred::user(5, 5);
    let mut fs = Files::new(all(100), ATTR);
    let root = fs.root();
    let open = fs.mkdir(root, b"open", Attr { mode: 0o777, ..ATTR }).unwrap();
    let to = fs.mkdir(open, b"to", Attr { mode: 0o777, ..ATTR }).unwrap();
    fs.mkdir(open, b"theirs", ATTR).unwrap();
    fs.mkdir(open, b"own", Attr { cred: user.clone(), ..ATTR }).unwrap();
    assert_eq!(fs.rename(open, b"theirs", to, b"x", 0, &user, 0), Err(Errno::EACCES));
    assert_eq!(fs.rename(open, b"theirs", open, b"x", 0, &user, 0), Ok(()));
    assert_eq!(fs.rename(open, b"own", to, b"own", 0, &user, 0), Ok(()));
    let exchanged = fs.rename(open, b"x", to, b"own", RENAME_EXCHANGE, &user, 0);
    assert_eq!(exchanged, Err(Errno::EACCES));
}

#[test]
fn set_id_bits_go_with_changes() {
    let user = Cred::user(5, 5);
    let mut fs = Files::new(all(100), ATTR);
    let tmp = shared(&mut fs);
    let own = file(&mut fs, tmp, b"own", 0o777, user.clone());
    let mode = |fs: &Files| fs.get(own).unwrap().mode;
    assert_eq!(fs.set_mode(own, 0o6777, &user, 0), Ok(()));
    assert_eq!(mode(&fs), 0o6777);
    assert_eq!(fs.written(own, &user, 0), Ok(()));
    assert_eq!(mode(&fs), 0o777);
    assert_eq!(fs.set_mode(own, 0o6777, &ROOT, 0), Ok(()));
    assert_eq!(fs.written(own, &ROOT, 0), Ok(()));
    assert_eq!(mode(&fs), 0o6777);
    assert_eq!(fs.set_owner(own, None, Some(7), &ROOT, 0), Ok(()));
    assert_eq!(mode(&fs), 0o777);
    // No longer in its group, the owner cannot make it run as that.
    assert_eq!(fs.set_mode(own, 0o2777, &user, 0), Ok(()));
    assert_eq!(mode(&fs), 0o777);
}

#[test]
fn directories_pass_their_group_on() {
    let user = Cred::user(5, 5);
    let mut fs = Files::new(all(100), ATTR);
    let root = fs.root();
    let dir = fs.mkdir(root, b"dir", Attr { mode: 0o2777, ..ATTR }).unwrap();
    fs.set_owner(dir, None, Some(9), &ROOT, 0).unwrap();
    let sub = fs.mkdir(dir, b"sub", Attr { cred: user.clone(), ..ATTR }).unwrap();
    let made = file(&mut fs, sub, b"f", 0o2777, user.clone());
    let of = |ino| (fs.get(ino).unwrap().gid, fs.get(ino).unwrap().mode);
    assert_eq!(of(sub), (9, 0o2755));
    assert_eq!(of(made), (9, 0o777));
}

#[test]
fn supplementary_groups_count_as_the_own_one() {
    let mut fs = Files::new(all(100), ATTR);
    let tmp = shared(&mut fs);
    let member = Cred { groups: credentials::Groups::new(vec![9, 6, 8]), ..Cred::user(5, 5) };
    let theirs = file(&mut fs, tmp, b"theirs", 0o640, Cred::user(6, 6));
    assert_eq!(fs.get(theirs).unwrap().permits(&member, memfs::READ), Ok(()));
    assert_eq!(fs.get(theirs).unwrap().permits(&member, memfs::WRITE), Err(Errno::EACCES));
    assert_eq!(fs.get(theirs).unwrap().permits(&Cred::user(5, 5), memfs::READ), Err(Errno::EACCES));
    let own = file(&mut fs, tmp, b"own", 0o755, member.clone());
    assert_eq!(fs.set_owner(own, None, Some(7), &member, 0), Err(Errno::EPERM));
    assert_eq!(fs.set_owner(own, None, Some(8), &member, 0), Ok(()));
    assert_eq!(fs.set_mode(own, 0o2755, &member, 0), Ok(()));
    assert_eq!(fs.get(own).unwrap().mode, 0o2755);
}
