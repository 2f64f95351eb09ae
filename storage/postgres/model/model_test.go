// Package model checks the argument about unknown outcomes in the documentation of storage/postgres.
// It searches all possible orders of events, up to a limit, in a small model: two Colophon servers,
// a primary database server, and its synchronous standby. The package contains only tests.
//
// The model follows PostgreSQL. A transaction locks the head row, checks its condition, writes its
// commit record, and waits for the standby. Until the wait ends, other transactions do not see the
// new row and cannot lock it. If the wait is cancelled or the primary restarts, other transactions
// see a row that can be missing on the standby. The standby has a prefix of the primary's log. The
// standby can be promoted at any time, whether the primary continues or is lost.
package model

import (
	"cmp"
	"fmt"
	"slices"
)

// log holds the entries of a ledger as hexadecimal digits, one digit per entry, oldest first. A
// checkpoint is a signed log. Two checkpoints are consistent if one of their logs extends the
// other.
type log uint16

func (l log) with(entry uint8) log { return l<<4 | log(entry) }

func (l log) extends(earlier log) bool {
	for l > earlier {
		l >>= 4
	}
	return l == earlier
}

// row is a version of the head row.
type row struct {
	epoch, writer uint8
	log           log
}

const (
	primary = 0
	standby = 1 // accepts connections once it is promoted
)

var nodeNames = [...]string{"the primary", "the standby"}

// kind says what a transaction does to the head row.
type kind uint8

const (
	takeFrom kind = iota // raises the epoch and makes the server the writer
	takeOwn              // raises the epoch if the server is still the writer
	commit               // replaces the log
)

var kindNames = [...]string{"its taking over", "its raising of the epoch", "its commit"}

// tx is a transaction that a node is processing.
type tx struct {
	stage      stage
	kind       kind
	node       uint8
	writer     uint8
	current    bool // whether the writer is still waiting for the answer to the transaction
	replicated bool // whether the standby had the transaction's record when it was promoted
	epoch      uint8
	old, next  log
}

type stage uint8

const (
	none    stage = iota
	sent          // the condition has not been checked yet
	written       // the commit record is in the node's log, and the transaction waits for the standby
)

// phase says what a writer does next.
type phase uint8

const (
	opening  phase = iota // takes over the ledger
	doubtful              // raises the epoch again, because the outcome of its commit is unknown
	taking                // waits for the response to the transaction sent while opening or doubtful
	reading               // reads the head
	ready                 // can sign a log
	again                 // sends its commit again
	waiting               // waits for the response to its commit
	stopped
)

// writer is a Colophon server.
type writer struct {
	phase phase
	node  uint8 // the node that last answered
	epoch uint8
	log   log  // the log of the latest head that the writer knows
	next  log  // a signed log that is not known to be committed; 0 if there is none
	seen  row  // a row that was read too early (see variant.early)
	early bool // whether seen is set
}

// state is the combined state of both nodes, both writers, and the clients.
type state struct {
	nodes    [2]row // for each node, the row that other transactions see
	queue    [4]row // rows that the primary has written and that are not yet on the standby
	queued   uint8
	held     row // the row that the standby has received
	promoted bool
	lost     bool  // whether the primary is lost
	txs      [4]tx // in sorted order
	writers  [2]writer

	acknowledged log // the longest log for which clients have receipts
	published    log // the longest log for which clients have a checkpoint
	entries      uint8

	mishaps uint8 // number of mishaps that can still happen: cut connections, cancelled waits, and restarts
}

// variant selects a variant of the protocol. Each field that is set breaks one part of the protocol.
type variant struct {
	separate       bool // the head is read after the epoch has been raised, in a separate transaction
	anywhere       bool // with separate, the head can be read at any node
	epochUnread    bool // with separate, the writer does not compare the epoch of the head that it reads
	noBump         bool // the epoch is never raised
	early          bool // the head is read before raising the epoch is acknowledged
	epochUnchecked bool // a commit requires the size and the tip but not the epoch
	warningIsFine  bool // an answer after a cancelled wait is treated as an acknowledgement
}

// emit is called with a state that can follow the current one. violated describes the invariant
// that the step to this state violates, or is empty. The other arguments describe the step.
type emit func(to state, violated string, format string, arguments ...any)

// steps calls emit for each state that can follow s.
func (v variant) steps(s state, emit emit) {
	for w := range s.writers {
		v.writerSteps(s, w, emit)
	}
	for i := range s.txs {
		if s.txs[i].stage != none {
			v.txSteps(s, i, emit)
		}
	}
	s.nodeSteps(emit)
}

func (v variant) writerSteps(s state, w int, emit emit) {
	p := s.writers[w].phase
	switch {
	case v.noBump && (p == opening || p == doubtful):
		n := s
		n.writers[w].phase = reading
		emit(n, "", "writer %d does not raise the epoch", w)
	case v.early && (p == opening || p == doubtful) && !s.writers[w].early:
		s.eachNode(func(node uint8) {
			n := s
			n.writers[w].seen, n.writers[w].early = n.nodes[node], true
			emit(n, "", "writer %d reads the head at %s: %x", w, nodeNames[node], n.nodes[node].log)
		})
	case p == opening:
		s.send(w, tx{kind: takeFrom}, taking, emit)
	case p == doubtful:
		s.send(w, tx{kind: takeOwn}, taking, emit)
	case p == reading:
		s.eachNode(func(node uint8) {
			if v.separate && !v.anywhere && node != s.writers[w].node {
				return
			}
			n := s
			violated := v.read(&n, w, n.nodes[node])
			emit(n, violated, "writer %d reads the head at %s: %x", w, nodeNames[node], n.nodes[node].log)
		})
	case p == ready && s.entries < maxEntries:
		n := s
		n.entries++
		n.writers[w].next = n.writers[w].log.with(n.entries)
		n.send(w, tx{kind: commit}, waiting, emit)
	case p == again:
		s.send(w, tx{kind: commit}, waiting, emit)
	}
	if (p == taking || p == waiting) && s.mishaps > 0 {
		n := s
		n.mishaps--
		n.abandon(w)
		n.unknown(w)
		emit(n, "", "the connection of writer %d is cut", w)
	}
	if p != opening && s.mishaps > 0 {
		n := s
		n.mishaps--
		n.abandon(w)
		n.writers[w] = writer{}
		emit(n, "", "writer %d starts again, and knows nothing", w)
	}
}

// sort sorts the transactions, so that states that differ only in the order of their transactions
// are equal.
func (s *state) sort() {
	slices.SortFunc(s.txs[:], func(a, b tx) int { return cmp.Compare(a.order(), b.order()) })
}

func (t *tx) order() uint64 {
	key := uint64(t.stage)<<4 | uint64(t.kind)<<2 | uint64(t.node)<<1 | uint64(t.writer)
	if t.current {
		key |= 1 << 6
	}
	return key<<40 | uint64(t.epoch)<<32 | uint64(t.old)<<16 | uint64(t.next)
}

// eachNode calls f for each node that accepts connections.
func (s *state) eachNode(f func(node uint8)) {
	if !s.lost {
		f(primary)
	}
	if s.promoted {
		f(standby)
	}
}

// send emits, for each node, the state in which writer w has sent the transaction t to that node.
// then is the writer's next phase.
func (s state) send(w int, t tx, then phase, emit emit) {
	x := &s.writers[w]
	t.stage, t.writer, t.current, t.epoch = sent, uint8(w), true, x.epoch
	if t.kind == commit {
		t.old, t.next = x.log, x.next
	}
	x.phase = then
	s.eachNode(func(node uint8) {
		n, t := s, t
		t.node = node
		for i := range n.txs {
			if n.txs[i].stage == none {
				n.txs[i] = t
				emit(n, "", "writer %d sends %s to %s, epoch %d, log %x to %x", w, kindNames[t.kind], nodeNames[node], t.epoch, t.old, t.next)
				return
			}
		}
	})
}

// abandon makes writer w stop waiting for its transactions, which continue without it.
func (s *state) abandon(w int) {
	for i := range s.txs {
		if int(s.txs[i].writer) == w {
			s.txs[i].current = false
		}
	}
}

// unknown is the step in which writer w fails to learn the outcome of its transaction.
func (s *state) unknown(w int) {
	x := &s.writers[w]
	x.seen, x.early = row{}, false
	x.phase = opening
	if x.next != 0 {
		x.phase = doubtful
	}
}

// after returns r as changed by the transaction.
func (t *tx) after(r row) row {
	if t.kind == commit {
		r.log = t.next
	} else {
		r.epoch, r.writer = r.epoch+1, t.writer
	}
	return r
}

// permits reports whether r meets the condition of transaction t.
func (v variant) permits(r row, t *tx) bool {
	switch t.kind {
	case takeOwn:
		return r.writer == t.writer
	case commit:
		return (v.epochUnchecked || r.epoch == t.epoch) && r.log == t.old
	}
	return true
}

func (v variant) txSteps(s state, i int, emit emit) {
	t := s.txs[i]
	switch t.stage {
	case sent:
		if !t.current {
			n := s
			n.txs[i] = tx{}
			emit(n, "", "%s ends %s of writer %d", nodeNames[t.node], kindNames[t.kind], t.writer)
		}
		if s.locked(t.node) {
			return
		}
		n := s
		if !v.permits(n.nodes[t.node], &t) {
			n.txs[i] = tx{}
			if t.current {
				n.writers[t.writer] = writer{phase: stopped}
			}
			emit(n, "", "%s refuses %s of writer %d", nodeNames[t.node], kindNames[t.kind], t.writer)
			return
		}
		violated := ""
		if seen := n.nodes[t.node]; t.kind == commit && t.epoch < seen.epoch {
			violated = fmt.Sprintf("epoch %d commits after epoch %d", t.epoch, seen.epoch)
		}
		n.txs[i].stage = written
		if t.node == primary && !n.promoted {
			n.queue[n.queued] = t.after(n.nodes[primary])
			n.queued++
		}
		emit(n, violated, "%s writes %s of writer %d", nodeNames[t.node], kindNames[t.kind], t.writer)
	case written:
		if t.node == standby || t.replicated || !s.promoted && s.queued == 0 {
			n := s
			n.end(i)
			violated := ""
			if t.current {
				violated = v.answered(&n, &t)
			}
			emit(n, violated, "%s answers %s of writer %d", nodeNames[t.node], kindNames[t.kind], t.writer)
		}
		if t.node == primary && s.mishaps > 0 {
			n := s
			n.mishaps--
			n.end(i)
			violated := ""
			switch {
			case t.current && v.warningIsFine:
				violated = v.answered(&n, &t)
			case t.current:
				n.unknown(int(t.writer))
			}
			emit(n, violated, "the primary is told not to wait, and answers %s of writer %d with a warning", kindNames[t.kind], t.writer)
		}
	}
}

// locked reports whether a transaction holds the lock on the head row of the given node.
func (s *state) locked(node uint8) bool {
	for i := range s.txs {
		if s.txs[i].stage == written && s.txs[i].node == node {
			return true
		}
	}
	return false
}

// end ends transaction i, whose commit record has been written. From then on, other transactions
// see the row that it wrote.
func (s *state) end(i int) {
	t := &s.txs[i]
	s.nodes[t.node] = t.after(s.nodes[t.node])
	*t = tx{}
}

// answered is the step in which a writer learns that its transaction is acknowledged. Other
// transactions already see the new row.
func (v variant) answered(s *state, t *tx) (violated string) {
	x := &s.writers[t.writer]
	if v.separate {
		x.node = t.node
	}
	if t.kind == commit {
		return s.receipt(int(t.writer))
	}
	x.epoch = s.nodes[t.node].epoch
	switch {
	case v.separate:
		x.phase = reading
		return ""
	case v.early:
		return v.read(s, int(t.writer), x.seen)
	}
	return v.read(s, int(t.writer), s.nodes[t.node])
}

// read is the step in which writer w has read the head.
func (v variant) read(s *state, w int, head row) (violated string) {
	x := &s.writers[w]
	x.seen, x.early = row{}, false
	switch {
	case v.separate && !v.epochUnread && head.epoch != x.epoch:
		*x = writer{phase: stopped}
	case x.next == 0:
		x.phase, x.log = ready, head.log
		return s.publish(head.log)
	case head.log == x.next:
		return s.receipt(w)
	default:
		x.phase = again
	}
	return ""
}

// receipt is the step in which writer w learns that its commit is acknowledged, and gives its
// client a receipt.
func (s *state) receipt(w int) (violated string) {
	x := &s.writers[w]
	x.phase, x.log, x.next = ready, x.next, 0
	if x.log.extends(s.acknowledged) {
		s.acknowledged = x.log
	}
	if s.promoted && !s.nodes[standby].log.extends(x.log) {
		return fmt.Sprintf("a receipt for log %x was given, but the promoted standby has log %x", x.log, s.nodes[standby].log)
	}
	return s.publish(x.log)
}

// publish is the step in which clients receive the checkpoint of log l.
func (s *state) publish(l log) (violated string) {
	switch {
	case l.extends(s.published):
		s.published = l
	case !s.published.extends(l):
		return fmt.Sprintf("the checkpoints of logs %x and %x are inconsistent", s.published, l)
	}
	return ""
}

func (s state) nodeSteps(emit emit) {
	if s.queued > 0 && !s.promoted {
		n := s
		n.held = n.queue[0]
		copy(n.queue[:], n.queue[1:])
		n.queued--
		emit(n, "", "the standby gets epoch %d, log %x", n.held.epoch, n.held.log)
	}
	if s.mishaps > 0 && !s.lost {
		n := s
		n.mishaps--
		n.disconnect(true)
		emit(n, "", "the primary is killed and starts again")
	}
	if s.promoted {
		return
	}
	violated := ""
	if !s.held.log.extends(s.acknowledged) {
		violated = fmt.Sprintf("receipts for log %x were given, but the promoted standby has log %x", s.acknowledged, s.held.log)
	}
	n := s
	n.nodes[standby], n.promoted = n.held, true
	for i := range n.txs {
		n.txs[i].replicated = n.txs[i].stage == written && n.queued == 0
	}
	n.queue, n.queued = [len(n.queue)]row{}, 0
	emit(n, violated, "the standby is promoted with epoch %d, log %x; the primary goes on", n.held.epoch, n.held.log)
	n.disconnect(false)
	n.lost, n.nodes[primary] = true, row{}
	emit(n, violated, "the primary is lost, and the standby is promoted with epoch %d, log %x", n.held.epoch, n.held.log)
}

// disconnect ends all transactions on the primary. If stays is true, the primary keeps running, and
// transactions whose commit record has been written take effect.
func (s *state) disconnect(stays bool) {
	for i := range s.txs {
		t := s.txs[i]
		if t.stage == none || t.node != primary {
			continue
		}
		if s.txs[i] = (tx{}); stays && t.stage == written {
			s.nodes[primary] = t.after(s.nodes[primary])
		}
		if t.current {
			s.unknown(int(t.writer))
		}
	}
}
