// Package capacity predicts how many records per second several servers on one database can accept. It
// simulates clients, processors, ledgers, and commits in virtual time.
package capacity

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// Costs holds the costs of a record and of a commit. All values are processor times, except for Wait and
// PollInterval.
type Costs struct {
	Client time.Duration // client's time per record

	// The next four fields are the server's processor times per record. Sequence is part of a commit, and a
	// ledger runs one commit at a time. Index is spent after the commit.
	Before   time.Duration // reading, parsing, hashing, checking
	Sequence time.Duration // chain, tree, and idempotency keys
	After    time.Duration // receipt and response
	Index    time.Duration

	ServerCommit time.Duration // server's time per commit

	Database       time.Duration // database's time per record
	DatabaseCommit time.Duration // database's time per commit

	// Wait is the part of each commit during which no processor works: round trips and the database's sync.
	Wait time.Duration

	// The fields below apply to each server that follows the ledger. At most once per PollInterval, it polls the
	// head, and then reads, verifies, and indexes the new records.
	PollInterval   time.Duration
	Poll, Follow   time.Duration // follower's processor times per poll and per record
	PollDatabase   time.Duration // database's time per poll
	FollowDatabase time.Duration // database's time per record that a follower reads
}

// Scenario describes the simulated servers, ledgers, and clients, and their machines.
type Scenario struct {
	Servers int
	Ledgers int // number of ledgers, distributed evenly over the servers
	Clients int // number of clients, distributed evenly over the ledgers; each waits for an answer before its next post

	ServerCores   int
	DatabaseCores int
	// Together places the clients, all servers, and the database on one machine with ServerCores cores.
	// Otherwise each server and the database have their own machines, and the clients use no processor time.
	Together bool
}

// Prediction is the result of a simulation.
type Prediction struct {
	Rate      float64       // records per second, measured until all servers have indexed all records
	P50       time.Duration // median time from the post to the answer
	PerCommit float64       // records per commit
	// Busy is the utilization of the busiest machine, from 0 to 1.
	Busy float64
}

// Simulate simulates s with the costs c until its clients have posted the given number of records.
func Simulate(c Costs, s Scenario, records int) Prediction {
	w := &world{costs: c, left: records}
	var servers []*machine
	if s.Together {
		one := w.machine(s.ServerCores)
		w.clients, w.database = one, one
		for range s.Servers {
			servers = append(servers, one)
		}
	} else {
		w.database = w.machine(s.DatabaseCores)
		for range s.Servers {
			servers = append(servers, w.machine(s.ServerCores))
		}
	}
	ledgers := make([]*ledger, s.Ledgers)
	for i := range ledgers {
		l := &ledger{world: w, server: servers[i%len(servers)]}
		for j, server := range servers {
			if j != i%len(servers) {
				l.followers = append(l.followers, &follower{world: w, server: server})
			}
		}
		ledgers[i] = l
	}
	for i := range s.Clients {
		w.post(ledgers[i%len(ledgers)])
	}
	w.run()
	p := Prediction{Rate: float64(w.answered) / w.now.Seconds(), PerCommit: float64(w.answered) / float64(w.commits)}
	slices.Sort(w.latencies)
	p.P50 = w.latencies[len(w.latencies)/2]
	for _, m := range w.machines {
		p.Busy = max(p.Busy, m.used.Seconds()/w.now.Seconds()/float64(m.cores))
	}
	return p
}

// world is the state of a simulation.
type world struct {
	costs    Costs
	now      time.Duration
	machines []*machine
	clients  *machine // nil if clients use no processor time
	database *machine
	timers   events

	left, answered, commits int
	latencies               []time.Duration
}

// ledger is a ledger on the server that writes it. It commits one batch of records at a time.
type ledger struct {
	world      *world
	server     *machine
	queue      []arrival
	committing bool
	unindexed  int // number of committed records that wait for the index
	indexing   bool
	followers  []*follower
}

// follower is a ledger on one of the servers that do not write it.
type follower struct {
	world   *world
	server  *machine
	unseen  int // number of committed records that the follower has not read yet
	polling bool
	next    time.Duration // earliest time of the next poll
}

// arrival is a record that waits for a commit.
type arrival struct{ posted time.Duration }

// post makes a client post its next record to l, if any record is left.
func (w *world) post(l *ledger) {
	if w.left == 0 {
		return
	}
	w.left--
	w.onClient(func() {
		posted := w.now
		w.work(l.server, w.costs.Before, func() {
			l.queue = append(l.queue, arrival{posted})
			l.commit()
		})
	})
}

func (w *world) onClient(then func()) {
	if w.clients == nil {
		then()
		return
	}
	w.work(w.clients, w.costs.Client, then)
}

// commit starts a commit of all waiting records, unless a commit is in progress.
func (l *ledger) commit() {
	if l.committing || len(l.queue) == 0 {
		return
	}
	l.committing = true
	batch, w := l.queue, l.world
	l.queue = nil
	n := time.Duration(len(batch))
	w.work(l.server, w.costs.ServerCommit+n*w.costs.Sequence, func() {
		w.work(w.database, w.costs.DatabaseCommit+n*w.costs.Database, func() {
			w.timers.add(w.now+w.costs.Wait, func() {
				w.commits++
				l.committing = false
				for _, a := range batch {
					w.work(l.server, w.costs.After, func() {
						w.answered++
						w.latencies = append(w.latencies, w.now-a.posted)
						w.post(l)
					})
				}
				l.unindexed += len(batch)
				l.index()
				for _, f := range l.followers {
					f.unseen += len(batch)
					f.poll()
				}
				l.commit()
			})
		})
	})
}

// index folds all waiting records at once, unless the index is already busy.
func (l *ledger) index() {
	if l.indexing || l.unindexed == 0 {
		return
	}
	l.indexing = true
	n := l.unindexed
	l.unindexed = 0
	l.world.work(l.server, time.Duration(n)*l.world.costs.Index, func() {
		l.indexing = false
		l.index()
	})
}

// poll reads and indexes the records that have been committed since the last poll.
func (f *follower) poll() {
	if f.polling || f.unseen == 0 {
		return
	}
	f.polling = true
	w := f.world
	w.timers.add(max(w.now, f.next), func() {
		f.next = w.now + w.costs.PollInterval
		n := time.Duration(f.unseen)
		f.unseen = 0
		w.work(w.database, w.costs.PollDatabase+n*w.costs.FollowDatabase, func() {
			w.work(f.server, w.costs.Poll+n*w.costs.Follow, func() {
				f.polling = false
				f.poll()
			})
		})
	})
}

// machine divides its cores evenly among its tasks; a task uses at most one core. clock is the processor time
// that a task would have received if it had run from the beginning.
type machine struct {
	cores int
	clock time.Duration
	used  time.Duration
	tasks events // ordered by the value of clock at which they end
}

func (w *world) machine(cores int) *machine {
	m := &machine{cores: cores}
	w.machines = append(w.machines, m)
	return m
}

// work adds a task to a machine. The simulation calls then when the task ends.
func (w *world) work(m *machine, task time.Duration, then func()) { m.tasks.add(m.clock+task, then) }

// share returns the fraction of a core that each task receives.
func (m *machine) share() float64 {
	return min(1, float64(m.cores)/float64(max(1, m.tasks.Len())))
}

// run advances the time from one event to the next until no event is left.
func (w *world) run() {
	for {
		var next func()
		at := time.Duration(-1)
		if e := w.timers.first(); e != nil {
			at, next = e.at, w.timers.take
		}
		for _, m := range w.machines {
			e := m.tasks.first()
			if e == nil {
				continue
			}
			end := w.now + time.Duration(float64(e.at-m.clock)/m.share())
			if at < 0 || end < at {
				at, next = end, m.tasks.take
			}
		}
		if next == nil {
			return
		}
		for _, m := range w.machines {
			if n := m.tasks.Len(); n > 0 {
				m.used += time.Duration(float64(at-w.now) * min(float64(n), float64(m.cores)))
				m.clock += time.Duration(float64(at-w.now) * m.share())
			}
		}
		w.now = at
		next()
	}
}

// event is a function that is called at a point in virtual time.
type event struct {
	at    time.Duration
	order int
	then  func()
}

// events is a heap of events, ordered by time. Events at the same time are ordered by when they were added.
type events struct {
	list  []event
	added int
}

func (e *events) add(at time.Duration, then func()) {
	e.added++
	heap.Push(e, event{at, e.added, then})
}

func (e *events) first() *event {
	if len(e.list) == 0 {
		return nil
	}
	return &e.list[0]
}

// take removes the first event and calls its function.
func (e *events) take() { heap.Pop(e).(event).then() }

func (e *events) Len() int { return len(e.list) }
func (e *events) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e.list[i].at, e.list[j].at), cmp.Compare(e.list[i].order, e.list[j].order)) < 0
}
func (e *events) Swap(i, j int) { e.list[i], e.list[j] = e.list[j], e.list[i] }
func (e *events) Push(x any)    { e.list = append(e.list, x.(event)) }
func (e *events) Pop() any {
	last := e.list[len(e.list)-1]
	e.list = e.list[:len(e.list)-1]
	return last
}
