//! The network of the emulated machine: `./x run --net none|user|tap`, `--publish HOST:GUEST`.

use crate::wire::{Weather, Wire};
use anyhow::{bail, ensure, Context, Result};
use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};

/// Where the guest is in the emulator's own network.
const USER: &str = "10.0.2.15/24,10.0.2.2";
/// Who knows names there.
const USER_NAMES: &str = "10.0.2.3";
/// The device's address: of those that nobody has given to a maker.
const MAC: &str = "52:54:00:12:34:56";

/// In place of hundreds of frames: see `libos::session::FAILS_AT_START`.
const ALWAYS: u8 = 255;

/// What kind of network.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// None.
    None,
    /// The emulator's own. The first servers of the network, so many of them, fail after so many hundred frames each, for a test of that; 0: none; [`ALWAYS`]:
    /// each one does, at its start.
    User { fails: u8, times: u8 },
    /// The same at another place (`A.B.C`, of 24 bits), which the guest is not told: it asks for it.
    Elsewhere { place: [u8; 3] },
    /// The same behind a wire that loses, delays, reorders and repeats frames.
    Worse(Weather),
    /// An interface of this machine, the guest's place, the gateway, and whether checksums of segments are left to it.
    Tap { interface: String, place: String, gateway: Option<Ipv4Addr>, sums: bool },
}

/// A port that is published.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    address: Ipv4Addr,
    host: u16,
    guest: u16,
    is_udp: bool,
}

/// What a user says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wish {
    kind: Option<Kind>,
    ports: Vec<Port>,
}

const TAP: &str = "tap:INTERFACE,ADDRESS/BITS[,GATEWAY][,sums=no]";

/// Takes `--net` apart.
pub fn parse(text: &str) -> Result<Kind> {
    match (text, text.strip_prefix("tap:")) {
        ("none", _) => Ok(Kind::None),
        ("user", _) => Ok(Kind::RELIABLE),
        ("user,fails=start", _) => Ok(Kind::User { fails: ALWAYS, times: 1 }),
        (text, None) if text.starts_with("user,fails=") => failing(&text["user,fails=".len()..]),
        (text, None) if text.starts_with("user,dhcp=") => {
            const WRONG: &str = "a network of 24 bits, such as 192.168.76.0/24";
            let place = text["user,dhcp=".len()..].strip_suffix("/24").context(WRONG)?;
            let place: Ipv4Addr = place.parse().context(WRONG)?;
            let [a, b, c, 0] = place.octets() else { bail!(WRONG) };
            ensure!((1..224).contains(&a) && a != 127, WRONG);
            Ok(Kind::Elsewhere { place: [a, b, c] })
        }
        (text, None) if text.starts_with("user,") => {
            Ok(Kind::Worse(Weather::parse(&text["user,".len()..])?))
        }
        (_, Some(rest)) => {
            let (rest, sums) = match rest.strip_suffix(",sums=no") {
                Some(rest) => (rest, false),
                None => (rest, true),
            };
            let mut parts = rest.split(',');
            let (interface, place) = (parts.next().unwrap_or_default(), parts.next());
            let place = place.context(TAP)?;
            let (address, bits) =
                place.split_once('/').context("an address and bits, such as 192.168.7.2/24")?;
            let _: Ipv4Addr = address.parse().context("no address of IPv4")?;
            let bits: u8 = bits.parse().context("a number of bits")?;
            ensure!((1..=30).contains(&bits), "between 1 and 30 bits");
            let gateway =
                parts.next().map(str::parse).transpose().context("no address of a gateway")?;
            ensure!(parts.next().is_none(), TAP);
            ensure!(
                !interface.is_empty()
                    && interface.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_'),
                "{interface:?} is no name of an interface"
            );
            Ok(Kind::Tap { interface: interface.into(), place: place.into(), gateway, sums })
        }
        _ => bail!("none, user, user,loss=N,delay=MS, or {TAP}"),
    }
}

impl Kind {
    /// The emulator's own, whose server does not fail by itself.
    const RELIABLE: Kind = Kind::User { fails: 0, times: 1 };
}

/// Takes `N[,times=M]` apart.
fn failing(text: &str) -> Result<Kind> {
    let (fails, times) = text.split_once(",times=").unwrap_or((text, "1"));
    let fails = fails.parse().ok().filter(|fails| (1..ALWAYS).contains(fails));
    let fails = fails.context("between 1 and 254 hundred frames, or start")?;
    let times = times.parse().ok().filter(|&times| times > 0);
    Ok(Kind::User { fails, times: times.context("between 1 and 255 times")? })
}

/// Takes `--publish` apart.
pub fn parse_port(text: &str) -> Result<Port> {
    const WRONG: &str = "[ADDRESS:]HOST:GUEST[/udp], such as 8080:80";
    let (ports, is_udp) = match text.strip_suffix("/udp") {
        Some(ports) => (ports, true),
        None => (text.strip_suffix("/tcp").unwrap_or(text), false),
    };
    let (rest, guest) = ports.rsplit_once(':').context(WRONG)?;
    let (address, host) = match rest.rsplit_once(':') {
        Some((address, host)) => (address.parse().context(WRONG)?, host),
        None => (Ipv4Addr::LOCALHOST, rest),
    };
    let port = |text: &str| text.parse().ok().filter(|&port: &u16| port > 0).context(WRONG);
    Ok(Port { address, host: port(host)?, guest: port(guest)?, is_udp })
}

impl Wish {
    /// Of both options. Whoever publishes a port wants a network.
    pub fn new(kind: Option<Kind>, ports: &[Port]) -> Result<Wish> {
        let kind = match kind {
            None if !ports.is_empty() => Some(Kind::RELIABLE),
            Some(Kind::None) if !ports.is_empty() => bail!("--publish, but --net none"),
            Some(Kind::Tap { .. }) if !ports.is_empty() => {
                bail!("--publish is for --net user: through a tap every port is reached")
            }
            kind => kind.filter(|kind| *kind != Kind::None),
        };
        Ok(Wish { kind, ports: ports.to_vec() })
    }

    /// Is there any network?
    pub fn is_some(&self) -> bool {
        self.kind.is_some()
    }

    /// `/etc/resolv.conf`.
    pub fn resolver(&self) -> Option<String> {
        let server = match self.kind.as_ref()? {
            Kind::None => return None,
            Kind::User { .. } | Kind::Elsewhere { .. } | Kind::Worse(_) => USER_NAMES.into(),
            Kind::Tap { gateway, .. } => gateway.as_ref()?.to_string(),
        };
        Some(format!("nameserver {server}\n"))
    }
}

/// The network of a machine.
pub struct Network {
    wish: Wish,
    /// What lies before it.
    wire: Option<Wire>,
}

impl Network {
    /// Looks whether it can be had.
    pub fn open(wish: &Wish) -> Result<Network> {
        for port in &wish.ports {
            let at = (IpAddr::from(port.address), port.host);
            let free = match port.is_udp {
                true => UdpSocket::bind(at).map(drop),
                false => TcpListener::bind(at).map(drop),
            };
            let Port { address, host, guest, .. } = port;
            free.with_context(|| {
                format!("--publish {host}:{guest}: {address}:{host} cannot be had")
            })?;
        }
        if let Some(Kind::Tap { interface, .. }) = &wish.kind {
            // Those of this process's name space, which `/sys` need not show.
            let all = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
            let mut names = all.lines().filter_map(|line| line.split_once(':'));
            ensure!(
                names.any(|(name, _)| name.trim() == interface),
                "--net tap:{interface}: there is no such interface; as root: \
                 ip tuntap add {interface} mode tap user $USER; ip addr add ADDRESS/BITS dev {interface}; \
                 ip link set {interface} up"
            );
        }
        let wire = match wish.kind {
            Some(Kind::Worse(weather)) => Some(Wire::start(weather)?),
            _ => None,
        };
        Ok(Network { wish: wish.clone(), wire })
    }

    /// Words of the kernel's command line.
    pub fn command_line(&self) -> String {
        match &self.wish.kind {
            None | Some(Kind::None) => String::new(),
            Some(Kind::User { fails: 0, .. } | Kind::Elsewhere { .. } | Kind::Worse(_)) => {
                format!(" net={USER}")
            }
            Some(Kind::User { fails, times }) => {
                format!(" net={USER} netfails={fails} nettimes={times}")
            }
            Some(Kind::Tap { place, gateway, .. }) => {
                let gateway = gateway.map_or(String::new(), |gateway| format!(",{gateway}"));
                format!(" net={place}{gateway}")
            }
        }
    }

    /// The emulator's options. `iommu`: there is one.
    pub fn arguments(&self, iommu: bool) -> Vec<OsString> {
        let backend = match &self.wish.kind {
            None | Some(Kind::None) => return Vec::new(),
            Some(kind @ (Kind::User { .. } | Kind::Elsewhere { .. } | Kind::Worse(_))) => {
                let ports: String = self.wish.ports.iter().map(Port::argument).collect();
                let place = match kind {
                    Kind::Elsewhere { place: [a, b, c] } => format!(",net={a}.{b}.{c}.0/24"),
                    _ => String::new(),
                };
                format!("user,id=net{place}{ports}")
            }
            Some(Kind::Tap { interface, sums, .. }) => {
                let heads = if *sums { "" } else { ",vnet_hdr=off" };
                format!("tap,id=net,ifname={interface},script=no,downscript=no{heads}")
            }
        };
        // Else a device of this kind goes round the IOMMU.
        let platform = if iommu { ",iommu_platform=on" } else { "" };
        // No boot ROM: nothing is booted from there. Two queues, and the configuration.
        let device = format!(
            "virtio-net-pci,netdev=net,mac={MAC},romfile=,disable-legacy=on,vectors=3{platform}"
        );
        let mut all = vec!["-netdev".into(), backend.into(), "-device".into(), device.into()];
        all.extend(self.wire.iter().flat_map(|wire| wire.arguments("net")));
        all
    }
}

impl Port {
    fn argument(&self) -> String {
        let Port { address, host, guest, is_udp } = self;
        let protocol = if *is_udp { "udp" } else { "tcp" };
        format!(",hostfwd={protocol}:{address}:{host}-:{guest}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_and_ports() {
        assert_eq!(parse("none").unwrap(), Kind::None);
        assert_eq!(parse("user").unwrap(), Kind::RELIABLE);
        assert_eq!(parse("user,fails=3").unwrap(), Kind::User { fails: 3, times: 1 });
        assert_eq!(parse("user,fails=3,times=2").unwrap(), Kind::User { fails: 3, times: 2 });
        assert_eq!(parse("user,fails=start").unwrap(), Kind::User { fails: ALWAYS, times: 1 });
        assert_eq!(
            parse("user,dhcp=192.168.76.0/24").unwrap(),
            Kind::Elsewhere { place: [192, 168, 76] }
        );
        let tap = |text| Network {
            wish: Wish { kind: Some(parse(text).unwrap()), ports: vec![] },
            wire: None,
        };
        let weather = Weather { loss: 10, delay: 5, ..Weather::default() };
        assert_eq!(parse("user,loss=10,delay=5").unwrap(), Kind::Worse(weather));
        assert_eq!(tap("tap:t0,192.168.7.2/24").command_line(), " net=192.168.7.2/24");
        let with_gateway = tap("tap:t0,192.168.7.2/24,192.168.7.1").command_line();
        assert_eq!(with_gateway, " net=192.168.7.2/24,192.168.7.1");
        let without = tap("tap:t0,192.168.7.2/24,sums=no");
        assert_eq!(without.command_line(), " net=192.168.7.2/24");
        assert!(format!("{:?}", without.arguments(false)).contains("vnet_hdr=off"));
        for wrong in [
            "",
            "user,fails=0",
            "user,fails=255",
            "user,fails=3,times=0",
            "user,fails=3,times=256",
            "user,dhcp=192.168.76.1/24",
            "user,dhcp=192.168.76.0/16",
            "user,dhcp=127.0.0.0/24",
            "user,dhcp=224.0.0.0/24",
            "user,",
            "user,rain=3",
            "tap",
            "tap:",
            "tap:t0",
            "tap:t0,1.2.3.4",
            "tap:t0,1.2.3.4/31",
            "tap:t,script=x,1.2.3.4/8",
            "tap:t,1.2.3.4/8,sums=yes",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_port("8080:80").unwrap().argument(), ",hostfwd=tcp:127.0.0.1:8080-:80");
        let all = parse_port("0.0.0.0:53:5353/udp").unwrap();
        assert_eq!(all.argument(), ",hostfwd=udp:0.0.0.0:53-:5353");
        for wrong in ["", "80", "0:80", "80:0", "80:65536", "x:80:80", "80:80/icmp"] {
            assert!(parse_port(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_published_port_wants_a_network() {
        let port = parse_port("8080:80").unwrap();
        assert!(Wish::new(None, std::slice::from_ref(&port)).unwrap().is_some());
        assert!(Wish::new(Some(Kind::None), std::slice::from_ref(&port)).is_err());
        assert!(!Wish::new(None, &[]).unwrap().is_some());
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let host = taken.local_addr().unwrap().port();
        let wish = Wish::new(None, &[Port { host, ..port }]).unwrap();
        let error = Network::open(&wish).err().unwrap();
        assert!(format!("{error:#}").contains(&format!("{host}")), "{error:#}");
    }
}
