package hostile_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// tally counts requests and their outcomes.
type tally struct {
	mu       sync.Mutex
	counts   map[outcome]int     // guarded by mu
	tricks   map[string]int      // guarded by mu
	findings map[string]*finding // guarded by mu; keyed by the trick and the start of the error
}

type outcome struct {
	operation string
	class     class
	status    int // status of the response; 0 if there was none
}

// finding describes one kind of forbidden answer, and how often it occurred.
type finding struct {
	operations map[string]int // number of occurrences per operation
	first      string         // full description of the first occurrence
}

func newTally() *tally {
	return &tally{counts: make(map[outcome]int), tricks: make(map[string]int), findings: make(map[string]*finding)}
}

// add counts the answer a to the request r. If wrong is not nil, it also records a finding. before
// is the previous request on the connection, or nil.
func (t *tally) add(r *request, a *answer, wrong error, before *request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[outcome{r.op.OperationID, r.class, a.status}]++
	t.tricks[r.trick]++
	if wrong == nil {
		return
	}
	kind := fmt.Sprintf("%s: %.36s", r.trick, wrong)
	if t.findings[kind] == nil {
		t.findings[kind] = &finding{first: describe(r, a, wrong, before), operations: make(map[string]int)}
	}
	t.findings[kind].operations[r.op.OperationID]++
}

// describe formats a finding for the log of the test: the error, the request, and the answer.
// before is the previous request on the connection, or nil.
func describe(r *request, a *answer, wrong error, before *request) string {
	text := r.text()
	if r.way.send > 0 {
		text = text[:min(len(text), r.way.send)]
	}
	said := fmt.Sprintf("%.1500s\n\trequest (%d bytes): %.800q\n\tanswer: %d %v %.1000q", wrong, len(text), text, a.status, a.header, a.body)
	if before != nil && a.status == 0 { // the previous request might have broken the connection
		said += fmt.Sprintf("\n\tthe previous request on the connection: %s, %.800q", before.trick, before.text())
	}
	return said
}

// found returns a description of each kind of finding, sorted by kind.
func (t *tally) found() (list []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, kind := range slices.Sorted(maps.Keys(t.findings)) {
		f := t.findings[kind]
		list = append(list, fmt.Sprintf("%s\n\t%v\n\t%s", kind, f.operations, f.first))
	}
	return list
}

// succeeded reports whether any answer to the operation had a 2xx or 3xx status.
func (t *tally) succeeded(operation string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for o := range t.counts {
		if o.operation == operation && o.status >= 200 && o.status < 400 {
			return true
		}
	}
	return false
}

// report returns a table with a row for each operation and class of request. Each row shows how
// many answers had each status.
func (t *tally) report() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows := make(map[string][]outcome)
	for o := range t.counts {
		name := fmt.Sprintf("%-22s %-12s", o.operation, o.class)
		rows[name] = append(rows[name], o)
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		b.WriteString(name)
		slices.SortFunc(rows[name], func(a, b outcome) int { return cmp.Compare(a.status, b.status) })
		for _, o := range rows[name] {
			fmt.Fprintf(&b, "  %d×%d", o.status, t.counts[o])
		}
		b.WriteByte('\n')
	}
	for _, name := range slices.Sorted(maps.Keys(t.tricks)) {
		fmt.Fprintf(&b, "%8d  %s\n", t.tricks[name], name)
	}
	return b.String()
}
