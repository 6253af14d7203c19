//! A machine that is pretended: entries, TLBs that forget nothing until they are told to, and, if wanted, a cache
//! that is indexed by virtual addresses.
#![allow(dead_code, reason = "each test uses its part")]

use ephemeral::{Action, Colours, Cores, DirectMap, Machine};
use std::cell::{Ref, RefCell, RefMut};
use std::collections::HashMap;
use std::rc::Rc;

pub const CORES: u32 = 4;
pub const PAGES: u64 = 32;
pub const COLOURS: usize = 4;

/// Where the windows are, and where the direct map is.
const WINDOWS: usize = 0x4000_0000;
const DIRECT: usize = 0x8000_0000;
const PAGE: usize = 4096;

/// What is done to the machine, and what the crate says that it does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Point(usize, u64),
    Here(usize),
    On(Cores, usize),
    Did(Action),
}

#[derive(Default)]
pub struct World {
    pub here: u32,
    /// For each window the page, and whether it was used.
    entries: HashMap<usize, (u64, bool)>,
    tlbs: [HashMap<usize, u64>; CORES as usize],
    memory: [u64; PAGES as usize],
    /// Lines of the processor's cache by colour and page, if it is indexed by virtual addresses.
    lines: Option<HashMap<(usize, u64), u64>>,
    /// Colours of the pages in programs.
    pub colours: [Option<usize>; PAGES as usize],
    pub steps: Vec<Step>,
    pub local: u64,
    pub remote: u64,
}

impl World {
    /// The page that `core` sees at `address`, and the colour of that.
    fn translate(&mut self, core: u32, address: usize) -> (u64, usize) {
        let colour = address / PAGE % COLOURS;
        if address >= DIRECT {
            return (((address - DIRECT) / PAGE) as u64, colour);
        }
        let window = (address - WINDOWS) / PAGE;
        let entries = &mut self.entries;
        let page = *self.tlbs[core as usize].entry(window).or_insert_with(|| {
            let (page, used) = entries.get_mut(&window).expect("an address that shows nothing");
            *used = true;
            *page
        });
        (page, colour)
    }

    pub fn page_at(&mut self, core: u32, address: usize) -> u64 {
        self.translate(core, address).0
    }

    fn line(&mut self, page: u64, colour: usize) -> &mut u64 {
        let memory = &mut self.memory[page as usize];
        match &mut self.lines {
            Some(lines) => lines.entry((colour, page)).or_insert(*memory),
            None => memory,
        }
    }

    pub fn write(&mut self, core: u32, address: usize, value: u64) {
        let (page, colour) = self.translate(core, address);
        *self.line(page, colour) = value;
    }

    pub fn read(&mut self, core: u32, address: usize) -> u64 {
        let (page, colour) = self.translate(core, address);
        *self.line(page, colour)
    }

    /// What a program does at its own address.
    pub fn user(&mut self, page: u64) -> Option<&mut u64> {
        let colour = self.colours[page as usize]?;
        Some(self.line(page, colour))
    }

    /// The page is mapped elsewhere: its lines are written back before.
    pub fn recolour(&mut self, page: u64, colour: Option<usize>) {
        if let Some(lines) = &mut self.lines {
            let (own, rest) = lines.drain().partition(|&((_, of), _)| of == page);
            *lines = rest;
            let own: HashMap<(usize, u64), u64> = own;
            let changed = own.into_values().find(|&value| value != self.memory[page as usize]);
            self.memory[page as usize] = changed.unwrap_or(self.memory[page as usize]);
        }
        self.colours[page as usize] = colour;
    }
}

#[derive(Clone, Default)]
pub struct Pretended(pub Rc<RefCell<World>>);

impl Pretended {
    pub fn with_virtual_cache() -> Self {
        let this = Pretended::default();
        this.world().lines = Some(HashMap::new());
        this
    }
    pub fn world(&self) -> RefMut<'_, World> {
        self.0.borrow_mut()
    }
    fn see(&self) -> Ref<'_, World> {
        self.0.borrow()
    }
}

impl Machine for Pretended {
    type Page = u64;

    fn number(page: &u64) -> u64 {
        *page
    }
    fn address(&self, window: usize) -> usize {
        WINDOWS + window * PAGE
    }
    fn point(&mut self, first: usize, pages: &[u64]) -> bool {
        let mut world = self.world();
        world.steps.push(Step::Point(first, pages[0]));
        let old: Vec<_> = (first..)
            .zip(pages)
            .map(|(window, &page)| world.entries.insert(window, (page, false)))
            .collect();
        old.into_iter().flatten().any(|(_, used)| used)
    }
    fn clear(&mut self, first: usize, count: usize) {
        let mut world = self.world();
        (first..first + count).for_each(|window| {
            world.entries.remove(&window);
        });
    }
    fn invalidate_here(&mut self, first: usize, count: usize) {
        let mut world = self.world();
        let here = world.here as usize;
        world.steps.push(Step::Here(first));
        world.local += 1;
        world.tlbs[here].retain(|window, _| !(first..first + count).contains(window));
    }
    fn invalidate_on(&mut self, cores: Cores, first: usize, count: usize) {
        let mut world = self.world();
        assert!(!cores.has(world.here) && !cores.is_empty());
        world.steps.push(Step::On(cores, first));
        world.remote += 1;
        for core in cores.iter() {
            world.tlbs[core as usize].retain(|window, _| !(first..first + count).contains(window));
        }
    }
    fn here(&self) -> u32 {
        self.see().here
    }
    fn cores(&self) -> Cores {
        Cores::first(CORES)
    }
    fn note(&mut self, action: Action) {
        self.world().steps.push(Step::Did(action));
    }
}

impl DirectMap for Pretended {
    type Page = u64;
    fn address(page: u64) -> usize {
        DIRECT + page as usize * PAGE
    }
    fn are_neighbours(page: u64, next: u64) -> bool {
        page + 1 == next
    }
}

impl Colours for Pretended {
    fn colour_of_page(&self, page: u64) -> Option<usize> {
        self.see().colours[page as usize]
    }
    fn colour_of_address(&self, address: usize) -> usize {
        address / PAGE % COLOURS
    }
}
