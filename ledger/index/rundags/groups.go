package rundags

import (
	"bytes"
	"fmt"
	"slices"

	"colophon/ledger/drift"
	"colophon/ledger/event"
	"colophon/ledger/index/rowstore"
)

// GroupFields lists the hash fields of an event by which run-DAGs are grouped. The index stores the
// position of a field in this list instead of its name.
var GroupFields = [...]string{questionName, "model_profile_hash", "governance_policy_hash", "verifier_policy_hash", cacheKeyName}

// byQuestion is the position of question_hash in GroupFields.
const byQuestion = 0

// groupKey identifies a group of run-DAGs.
type groupKey struct {
	by byte // position of the name in GroupFields
	id rowstore.Identity
}

// group describes the run-DAGs that have the same hash in one of the GroupFields fields. Each version
// in groupVersions contains one encoded group.
type group struct {
	seq       uint64 // seq of the event that wrote the version
	live, all tally
	// answer is the answer of the group's only run-DAG. It is zero if that run-DAG has no answer, or if
	// the group contains several run-DAGs, counting those that are not live.
	answer rowstore.Identity
	// outcomes counts the run-DAGs by outcome, sorted by outcome.
	outcomes []outcomeTally
}

// tally counts all run-DAGs of a group, or only the live ones.
type tally struct {
	runs        uint64
	answers     uint64 // number of distinct answers
	first, last uint64 // seqs of the first and the last run-DAG; 0 if there are none
}

// outcomeTally is the number of run-DAGs of a group that have one outcome.
type outcomeTally struct {
	outcome
	liveAll
}

// liveAll contains two counts of run-DAGs: the live ones, and those in any state.
type liveAll struct{ live, all uint64 }

func (n *liveAll) append(dst []byte) []byte { return rowstore.AppendNumbers(dst, n.all, n.all-n.live) }

// take reads the counts that append encoded.
func (n *liveAll) take(r *rowstore.ValueReader) {
	var dead uint64
	r.ReadNumbers(&n.all, &dead)
	n.live = n.all - dead
	r.Malformed = r.Malformed || dead > n.all
}

func decodeLiveAll(value []byte) (liveAll, error) {
	var n liveAll
	r := rowstore.ValueReader{Rest: value}
	n.take(&r)
	return n, r.Finish("the run-DAG counts of an answer", value)
}

// append appends the encoding of g to dst. It writes the tally of the live run-DAGs only if some
// run-DAGs are not live.
func (g *group) append(dst []byte) []byte {
	dead := g.all.runs - g.live.runs
	dst = rowstore.AppendNumbers(dst, g.all.runs, dead, g.all.answers, g.all.first, g.all.last)
	if dead > 0 {
		dst = rowstore.AppendNumbers(dst, g.live.answers, g.live.first, g.live.last)
	}
	if g.hasOneAnswer() {
		dst = append(dst, g.answer[:]...)
	}
	for _, v := range g.outcomes {
		dst = v.liveAll.append(append(dst, v.outcome[:]...))
	}
	return dst
}

func (g *group) hasOneAnswer() bool { return g.all.runs == 1 && g.all.answers == 1 }

func decodeGroup(value []byte) (group, error) {
	var g group
	var dead uint64
	r := rowstore.ValueReader{Rest: value}
	r.ReadNumbers(&g.all.runs, &dead, &g.all.answers, &g.all.first, &g.all.last)
	g.live = g.all
	if dead > 0 {
		r.ReadNumbers(&g.live.answers, &g.live.first, &g.live.last)
	}
	g.live.runs -= dead
	if g.hasOneAnswer() {
		r.ReadIdentity(&g.answer)
	}
	for len(r.Rest) > 0 && !r.Malformed {
		var v outcomeTally
		o, err := decodeOutcome(r.Rest[:min(len(r.Rest), len(v.outcome))])
		if err != nil {
			return g, err
		}
		v.outcome, r.Rest = o, r.Rest[len(o):]
		v.liveAll.take(&r)
		g.outcomes = append(g.outcomes, v)
	}
	r.Malformed = r.Malformed || g.all.runs == 0 || dead > g.all.runs
	return g, r.Finish("a group of run-DAGs", value)
}

// recent returns the seq of the last live run-DAG if the group belongs in recentGroups, or 0 if it
// does not. A group with only one run-DAG is not in recentGroups, because groupLists already lists
// it in the order of that run-DAG.
func (g *group) recent() uint64 {
	if g.all.runs < 2 {
		return 0
	}
	return g.live.last
}

// count updates the counts of one outcome. It adds live to the number of live run-DAGs, and all to
// the number of run-DAGs in any state. Both arguments can be negative.
func (g *group) count(o outcome, live, all int) {
	i, found := slices.BinarySearchFunc(g.outcomes, o, func(v outcomeTally, o outcome) int { return bytes.Compare(v.outcome[:], o[:]) })
	if !found {
		g.outcomes = slices.Insert(g.outcomes, i, outcomeTally{outcome: o})
	}
	v := &g.outcomes[i]
	v.live, v.all = v.live+uint64(live), v.all+uint64(all)
}

// member collects what a run-DAG adds to its groups.
type member struct {
	seq     uint64
	outcome outcome
	answer  rowstore.Identity
	answers uint64 // 1 if the run-DAG has an answer, and 0 if not
}

func memberOf(seq uint64, dag *event.DAG) member {
	m := member{seq: seq, outcome: outcomeOf(dag)}
	if hash := drift.AnswerHash(dag.Stages); hash != nil {
		m.answer, m.answers = rowstore.IdentityOf(hash), 1
	}
	return m
}

// groupsOf returns the groups of a run-DAG in the order of GroupFields.
func groupsOf(dag *event.DAG) (keys []groupKey) {
	for by, name := range GroupFields {
		if hash := *dag.HashField(name); hash != nil {
			keys = append(keys, groupKey{byte(by), rowstore.IdentityOf([]byte(name), hash)})
		}
	}
	return keys
}

// group returns the newest version of a group, or the zero group if it has no run-DAGs.
func (f *deriver) group(id rowstore.Identity) group {
	seq, value, found := f.Rows.NewestVersion(groupVersions, id[:])
	if !found {
		return group{}
	}
	g := rowstore.DecodeOrFail(&f.Rows, value, decodeGroup)
	g.seq = seq
	return g
}

func (f *deriver) putGroup(id rowstore.Identity, seq uint64, g *group) {
	f.value = g.append(f.value[:0])
	f.Rows.Put(groupVersions, id[:], seq, f.value)
}

// joinGroups adds a new run-DAG to its groups.
func (f *deriver) joinGroups(seq uint64, dag *event.DAG) {
	m := memberOf(seq, dag)
	for _, k := range groupsOf(dag) {
		g := f.group(k.id)
		f.noteChange(k, &g, true)
		switch g.all.runs {
		case 0:
			f.Rows.Put(groupLists, []byte{k.by}, seq, k.id[:])
			g.all = tally{1, m.answers, seq, seq}
			g.live, g.answer = g.all, m.answer
		case 1:
			f.writeFirst(k.id, seq, &g)
			fallthrough
		default:
			f.join(k.id, &g, &m)
		}
		g.count(m.outcome, 1, 1)
		f.putGroup(k.id, seq, &g)
	}
}

// writeFirst writes the rows for a group's first run-DAG when the second one joins. Writing them
// earlier would be wasteful, because most groups never get a second run-DAG.
func (f *deriver) writeFirst(id rowstore.Identity, seq uint64, g *group) {
	if g.live.runs == 1 {
		f.Rows.Set(liveDAGKey(f.Rows.Keyspace, liveOfGroup, id[:], g.all.first), nil)
	}
	if g.all.answers == 1 {
		f.putAnswer(id, g.answer, seq, liveAll{g.live.runs, 1})
	}
}

// join adds a new run-DAG to a group that already has others.
func (f *deriver) join(id rowstore.Identity, g *group, m *member) {
	f.Rows.Set(liveDAGKey(f.Rows.Keyspace, liveOfGroup, id[:], m.seq), nil)
	var same liveAll
	if m.answers == 1 {
		same = f.answer(id, m.answer)
		f.putAnswer(id, m.answer, m.seq, liveAll{same.live + 1, same.all + 1})
	}
	g.all.join(m, same.all)
	g.live.join(m, same.live)
}

// join adds a run-DAG that is later than all others in the tally. same is the number of other
// run-DAGs in the tally that have the same answer.
func (t *tally) join(m *member, same uint64) {
	if t.runs++; t.runs == 1 {
		t.first = m.seq
	}
	t.last = m.seq
	if same == 0 {
		t.answers += m.answers
	}
}

// answer returns the number of run-DAGs of a group that have the given answer. The group must have
// had several run-DAGs.
func (f *deriver) answer(id, answer rowstore.Identity) liveAll {
	_, value, found := f.Rows.NewestVersion(groupAnswers, append(id[:len(id):len(id)], answer[:]...))
	if !found {
		return liveAll{}
	}
	return rowstore.DecodeOrFail(&f.Rows, value, decodeLiveAll)
}

func (f *deriver) putAnswer(id, answer rowstore.Identity, seq uint64, n liveAll) {
	f.value = n.append(f.value[:0])
	f.Rows.Put(groupAnswers, append(id[:len(id):len(id)], answer[:]...), seq, f.value)
}

// changeGroup updates one group of a run-DAG that becomes live or stops being live. It returns the
// last live run-DAG of the group. All earlier events must be stored.
func (f *deriver) changeGroup(seq uint64, k groupKey, m *member, live bool) (latest uint64, err error) {
	g := f.group(k.id)
	if g.all.runs == 0 {
		return 0, fmt.Errorf("%w: the group of run-DAG %d is missing", rowstore.ErrDamaged, m.seq)
	}
	f.noteChange(k, &g, false)
	step := -1
	if live {
		step = 1
	}
	g.count(m.outcome, step, 0)
	switch {
	case g.all.runs == 1 && live:
		g.live = g.all
	case g.all.runs == 1:
		g.live = tally{}
	default:
		if err := f.changeLiveOf(seq, k.id, &g.live, m, live); err != nil {
			return 0, err
		}
	}
	f.putGroup(k.id, seq, &g)
	return g.live.last, nil
}

// changeLiveOf updates the live run-DAGs of a group when one of its run-DAGs becomes live or stops
// being live. The group must contain several run-DAGs.
func (f *deriver) changeLiveOf(seq uint64, id rowstore.Identity, t *tally, m *member, live bool) (err error) {
	key := liveDAGKey(f.Rows.Keyspace, liveOfGroup, id[:], m.seq)
	same := f.answer(id, m.answer)
	if live {
		f.Rows.Set(key, nil)
		t.runs++
		t.last = max(t.last, m.seq)
		if t.first = min(t.first, m.seq); t.runs == 1 {
			t.first = m.seq
		}
		if same.live++; same.live == 1 {
			t.answers += m.answers
		}
	} else {
		f.Rows.SingleDelete(key)
		t.runs--
		if t.last == m.seq {
			t.last, err = f.liveBefore(liveOfGroup, id[:], m.seq)
		}
		if t.first == m.seq && err == nil {
			t.first, err = f.liveAfter(liveOfGroup, id[:], m.seq)
		}
		if same.live--; same.live == 0 {
			t.answers -= m.answers
		}
	}
	if m.answers == 1 {
		f.putAnswer(id, m.answer, seq, same)
	}
	return err
}

// recentFold lists the groups whose keys in recentGroups may be out of date, because the groups
// have changed since the event at since. During a rebuild, the keys are updated only rarely.
type recentFold struct {
	since   uint64
	changed []recentChange
}

// recentChange is a group that has changed. before is the seq of the run-DAG under which
// recentGroups lists the group, or 0 if recentGroups does not list it.
type recentChange struct {
	groupKey
	before uint64
}

// noteChange records a group before its first change since recentGroups was last updated. A new
// group is recorded when its second run-DAG joins.
func (f *deriver) noteChange(k groupKey, g *group, joins bool) {
	switch {
	case g.all.runs == 0:
	case g.seq < f.recent.since, joins && g.all.runs == 1 && g.all.first >= f.recent.since:
		f.recent.changed = append(f.recent.changed, recentChange{k, g.recent()})
	}
}

// BeginBatch implements Deferrer.
func (f *deriver) BeginBatch(from uint64) { f.recent.since = from }

// PendingCount implements Deferrer. It returns the number of groups that must be updated in
// recentGroups.
func (f *deriver) PendingCount() int { return len(f.recent.changed) }

// FlushPending implements Deferrer.
func (f *deriver) FlushPending(count int) {
	left := len(f.recent.changed) - count
	for _, c := range f.recent.changed[left:] {
		g := f.group(c.id)
		last := g.recent()
		if last == c.before {
			continue
		}
		if c.before != 0 {
			f.Rows.SingleDelete(recentKey(f.Rows.Keyspace, c.by, c.before))
		}
		if last != 0 {
			f.Rows.Set(recentKey(f.Rows.Keyspace, c.by, last), c.id[:])
		}
	}
	f.recent.changed = f.recent.changed[:left]
}

// recentKey returns the key of a group in recentGroups. Groups with later run-DAGs come first.
func recentKey(k rowstore.Keyspace, by byte, last uint64) []byte {
	return rowstore.AppendVersion(append(k.AppendPrefix(nil, recentGroups), by), last)
}
