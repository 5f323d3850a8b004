//! Devices that run one computation agree on whether a kernel failed.
//!
//! XLA stops on a device whose kernel failed, while the others go on to the next collective, wait
//! there for the one that stopped, and are aborted after a minute. So where a computation runs on
//! several devices, a kernel returns on one of them when it has ended on all of them, or failed on
//! one; then it fails on all.
//!
//! Nothing says that every device makes every call: a kernel may stand in a branch that some do not
//! take. A device goes on alone when those it waits for are outside of kernels and the process is
//! idle, so that XLA is not at work for them either.

use std::collections::BTreeMap;
use std::ffi::c_long;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Code, Failure};
use crate::frame::Frame;

/// How often a device that waits looks at what the process does.
const LOOK: Duration = Duration::from_millis(50);
/// How long the process is idle before a device goes on alone.
const IDLE: Duration = Duration::from_millis(400);
/// A process at work gets at least this fraction of a CPU, as 1 / n, on a machine that is overloaded.
/// Devices that wait and look use a tenth of that.
const AT_WORK: u32 = 50;
/// How long a device waits at most for others that are outside of kernels. Less than the minute
/// that XLA gives a collective.
const LIMIT: Duration = Duration::from_secs(15);
/// Launches remembered at most. One whose devices do not all make the same calls is never complete.
const LAUNCHES: usize = 1024;

/// Why a kernel failed.
type Reason = (Code, String);

/// The devices that make the calls of a call site.
#[derive(Debug)]
pub(crate) struct Devices {
    count: usize,
    /// Tells the site from others in the same launch.
    site: u64,
    /// Not every device makes its calls: nobody waits here any more.
    apart: AtomicBool,
}

impl Devices {
    pub(crate) fn new(count: usize) -> Devices {
        static SITES: AtomicU64 = AtomicU64::new(0);
        Devices {
            count,
            site: SITES.fetch_add(1, Ordering::Relaxed),
            apart: AtomicBool::new(false),
        }
    }

    /// A call begins. Fails if one of the same launch has failed on any device.
    pub(crate) fn enter(&self, frame: &Frame<'_>) -> Result<Turn<'_>, Failure> {
        if self.count == 1 {
            return Ok(Turn { devices: self, launch: 0, device: 0 });
        }
        let turn = Turn { devices: self, launch: frame.run_id()?, device: frame.device()? };
        turn.begin().map_err(|(code, text)| Failure::Status(code, text))?;
        Ok(turn)
    }
}

/// A call on one of the devices.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    devices: &'a Devices,
    launch: i64,
    device: i32,
}

impl Turn<'_> {
    fn begin(&self) -> Result<(), Reason> {
        let mut launches = lock();
        if launches.len() > LAUNCHES {
            let oldest = launches.iter().min_by_key(|(_, launch)| launch.age).map(|(&id, _)| id);
            oldest.map(|id| launches.remove(&id));
        }
        let launch = launches.entry(self.launch).or_insert_with(Launch::new);
        let mine = launch.devices.entry(self.device).or_default();
        let Some(reason) = launch.failure.clone() else {
            mine.running += 1;
            return Ok(());
        };
        mine.stopped = true;
        self.forget(&mut launches);
        Err(reason)
    }

    /// The call has ended, with `failure` or well: waits for the other devices, and returns what
    /// holds for all.
    pub(crate) fn agree(self, failure: Option<Reason>) -> Result<(), Reason> {
        if self.devices.count == 1 {
            return failure.map_or(Ok(()), Err);
        }
        let mut launches = lock();
        let launch = launches.entry(self.launch).or_insert_with(Launch::new);
        if launch.failure.is_none() {
            launch.failure = failure;
        }
        let mine = launch.devices.entry(self.device).or_default();
        mine.running = mine.running.saturating_sub(1);
        mine.waiting += 1;
        let calls = mine.ended.entry(self.devices.site).or_default();
        *calls += 1;
        let calls = *calls;
        CHANGED.notify_all();

        let mut patience = Patience::new();
        loop {
            let launch = launches.entry(self.launch).or_insert_with(Launch::new);
            if let Some(reason) = launch.failure.clone() {
                self.leave(&mut launches);
                return Err(reason);
            }
            let goes_on = launch.apart
                || self.devices.apart.load(Ordering::Relaxed)
                || match launch.others(self.devices, calls) {
                    // Where all wait, XLA has ordered the calls differently on them.
                    Others::Ended | Others::Waiting => true,
                    Others::Running => {
                        patience = Patience::new();
                        false
                    }
                    Others::Outside => {
                        let ended = patience.ended();
                        launch.apart |= ended;
                        self.devices.apart.fetch_or(ended, Ordering::Relaxed);
                        ended
                    }
                };
            if goes_on {
                break;
            }
            let waited = CHANGED.wait_timeout(launches, LOOK);
            launches = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.leave(&mut launches);
        Ok(())
    }

    /// The device goes on, or stops for good where the launch has failed.
    fn leave(&self, launches: &mut Launches) {
        let Some(launch) = launches.get_mut(&self.launch) else { return };
        let mine = launch.devices.entry(self.device).or_default();
        mine.waiting = mine.waiting.saturating_sub(1);
        mine.stopped |= launch.failure.is_some();
        self.forget(launches);
    }

    fn forget(&self, launches: &mut Launches) {
        if launches.get(&self.launch).is_some_and(|l| l.is_complete(self.devices.count)) {
            launches.remove(&self.launch);
        }
    }
}

/// A wait for devices that are outside of kernels.
struct Patience {
    since: Instant,
    /// When the process was last seen at work, and the CPU time it had used then.
    busy: (Instant, Duration),
}

#[allow(
    clippy::disallowed_methods,
    reason = "the clock only ends a wait for devices that make other calls"
)]
impl Patience {
    fn new() -> Patience {
        let now = Instant::now();
        Patience { since: now, busy: (now, cpu_time()) }
    }

    /// Whether it is no use to wait any longer.
    fn ended(&mut self) -> bool {
        let (now, cpu) = (Instant::now(), cpu_time());
        let idle = now - self.busy.0;
        if cpu.saturating_sub(self.busy.1) > idle / AT_WORK {
            self.busy = (now, cpu);
        }
        now - self.busy.0 > IDLE || now - self.since > LIMIT
    }
}

/// CPU time that the process has used.
fn cpu_time() -> Duration {
    unsafe extern "C" {
        /// Of the C library, in microseconds on every POSIX system.
        safe fn clock() -> c_long;
    }
    Duration::from_micros(u64::try_from(clock()).unwrap_or(0))
}

/// By XLA's number.
type Launches = BTreeMap<i64, Launch>;

static LAUNCHED: Mutex<Launches> = Mutex::new(BTreeMap::new());
static CHANGED: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Launches> {
    LAUNCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A computation under way on several devices.
#[derive(Debug)]
struct Launch {
    /// Greater for later ones; XLA's number does not grow.
    age: u64,
    /// Some devices make calls that others do not.
    apart: bool,
    failure: Option<Reason>,
    /// Those that have made a call.
    devices: BTreeMap<i32, Device>,
}

#[derive(Debug, Default)]
struct Device {
    running: u32,
    /// Calls that have ended and wait for the other devices.
    waiting: u32,
    /// It was told of the failure, and makes no more calls.
    stopped: bool,
    /// Per call site, how many calls have ended.
    ended: BTreeMap<u64, u64>,
}

/// What those devices do that have not ended as many calls.
#[derive(Debug, PartialEq)]
enum Others {
    /// There are none.
    Ended,
    /// One at least is inside a kernel.
    Running,
    /// They and all others wait for each other.
    Waiting,
    /// One at least is outside of kernels.
    Outside,
}

impl Launch {
    fn new() -> Launch {
        static AGES: AtomicU64 = AtomicU64::new(0);
        let age = AGES.fetch_add(1, Ordering::Relaxed);
        Launch { age, apart: false, failure: None, devices: BTreeMap::new() }
    }

    fn others(&self, devices: &Devices, calls: u64) -> Others {
        let ended = |device: &&Device| device.ended.get(&devices.site).is_some_and(|&n| n >= calls);
        if self.devices.values().filter(ended).count() == devices.count {
            return Others::Ended;
        }
        let mut missing = self.devices.values().filter(|device| !ended(device));
        if missing.any(|device| device.running > 0) {
            Others::Running
        } else if self.devices.values().filter(|device| device.waiting > 0).count() == devices.count
        {
            Others::Waiting
        } else {
            Others::Outside
        }
    }

    /// Whether it may be forgotten: a further call would find all devices as at the start.
    fn is_complete(&self, count: usize) -> bool {
        let devices = || self.devices.values();
        let first = devices().next();
        self.devices.len() >= count
            && devices().all(|d| d.running + d.waiting == 0)
            && devices().all(|d| match self.failure {
                Some(_) => d.stopped,
                None => first.is_some_and(|f| f.ended == d.ended),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::{Devices, Duration, IDLE, Turn, lock};
    use crate::error::Code;
    use std::sync::atomic::Ordering;
    use std::thread;

    /// What each device does with its turns, and what it was told in the end.
    fn launch(
        number: i64,
        devices: &Devices,
        makes: impl Fn(i32, Turn<'_>) -> Result<(), String> + Sync,
    ) -> Vec<Result<(), String>> {
        thread::scope(|scope| {
            let makes = &makes;
            let threads: Vec<_> = (0..devices.count as i32)
                .map(|device| {
                    scope.spawn(move || makes(device, Turn { devices, launch: number, device }))
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        })
    }

    fn turn(turn: Turn<'_>, failure: Option<&str>) -> Result<(), String> {
        turn.begin().map_err(|(_, text)| text)?;
        let failure = failure.map(|text| (Code::InvalidArgument, text.to_owned()));
        turn.agree(failure).map_err(|(_, text)| text)
    }

    #[test]
    fn one_device_decides_for_itself() {
        let devices = Devices::new(1);
        let alone = || Turn { devices: &devices, launch: 1, device: 0 };
        assert_eq!(alone().agree(None), Ok(()));
        let reason = (Code::InvalidArgument, "bad".to_owned());
        assert_eq!(alone().agree(Some(reason.clone())), Err(reason));
    }

    #[test]
    fn all_devices_fail_if_one_does_and_the_launch_is_forgotten() {
        let devices = Devices::new(4);
        for failing in [None, Some(2)] {
            let told = launch(10, &devices, |device, mine| {
                thread::sleep(Duration::from_millis(20 * device as u64));
                turn(mine, failing.filter(|&f| f == device).map(|_| "bad"))
            });
            let expected = if failing.is_some() { Err("bad".to_owned()) } else { Ok(()) };
            assert_eq!(told, vec![expected; 4]);
            assert!(!lock().contains_key(&10));
        }
    }

    #[test]
    fn a_device_that_never_comes_is_waited_for_once() {
        let devices = Devices::new(2);
        for number in 20..40 {
            let told = launch(number, &devices, |device, mine| match device {
                0 => turn(mine, None),
                _ => Ok(()),
            });
            assert_eq!(told, [Ok(()), Ok(())]);
        }
        assert!(devices.apart.load(Ordering::Relaxed));
    }

    #[test]
    fn devices_that_call_in_another_order_do_not_wait_for_each_other_for_ever() {
        let sites = [Devices::new(2), Devices::new(2)];
        let told = launch(50, &sites[0], |device, mine| {
            for at in [device as usize, 1 - device as usize] {
                turn(Turn { devices: &sites[at], ..mine }, None)?;
            }
            Ok(())
        });
        assert_eq!(told, [Ok(()), Ok(())]);
        assert!(!lock().contains_key(&50));
    }

    #[test]
    fn a_device_that_xla_works_for_is_waited_for() {
        let devices = Devices::new(2);
        let told = launch(70, &devices, |device, mine| {
            let mut n = 1_u64;
            if device == 1 {
                let begin = super::cpu_time();
                while super::cpu_time() < begin + IDLE {
                    n = std::hint::black_box(n.wrapping_mul(3));
                }
            }
            turn(mine, (device == 1 && n > 0).then_some("late"))
        });
        assert_eq!(told, vec![Err("late".to_owned()); 2]);
    }

    #[test]
    fn a_device_at_work_is_waited_for() {
        let devices = Devices::new(2);
        let told = launch(60, &devices, |device, mine| {
            if device == 1 {
                mine.begin().map_err(|(_, text)| text)?;
                thread::sleep(3 * IDLE);
                let reason = (Code::InvalidArgument, "late".to_owned());
                mine.agree(Some(reason)).map_err(|(_, text)| text)
            } else {
                thread::sleep(Duration::from_millis(20));
                turn(mine, None)
            }
        });
        assert_eq!(told, vec![Err("late".to_owned()); 2]);
    }
}
