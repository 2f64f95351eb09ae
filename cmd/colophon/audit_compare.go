package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"colophon/ledger/record/pyjson"
)

// comparer asks the server and the copy of the log the same, and compares.
type comparer struct {
	server, copied *fetcher
	size           uint64 // that all answers are as of
	page           int    // rows of a page; 0 is what the server thinks
}

// comparedAnswer is what came of a question.
type comparedAnswer struct {
	rows    uint64
	finding *auditFinding
	err     error
}

// ask asks a question and compares the answers to their ends. The error says why that
// was not possible.
func (c *comparer) ask(ctx context.Context, q question) (answer comparedAnswer) {
	expected, err := c.first(ctx, c.copied, q)
	if err != nil {
		return comparedAnswer{err: fmt.Errorf("asking the copy of the log: %s: %w", q, err)}
	}
	got, err := c.first(ctx, c.server, q)
	if err != nil {
		return c.failed(q, err)
	}
	if expected.status != got.status {
		return comparedAnswer{finding: c.finding(q, "", "the answer has another status", expected.says(), got.says())}
	}
	if got.status != http.StatusOK {
		return comparedAnswer{}
	}
	if member, a, b, differ := c.differs(expected, got, q.lists); differ {
		return comparedAnswer{finding: c.finding(q, member, "it differs", string(a), string(b))}
	}
	for _, list := range q.lists {
		for _, member := range list.members {
			n, finding, err := c.compareList(ctx, q, list, member, expected, got)
			answer.rows += n
			if err != nil {
				return c.failed(q, err)
			}
			if finding != nil {
				answer.finding = finding
				return answer
			}
		}
	}
	return answer
}

// failed is a question that the server does not answer in a way that can be read.
func (c *comparer) failed(q question, err error) comparedAnswer {
	if errors.Is(err, errTooMuch) || errors.Is(err, errAnswer) {
		return comparedAnswer{finding: c.finding(q, "", err.Error(), "", "")}
	}
	return comparedAnswer{err: fmt.Errorf("%s: %w", q, err)}
}

func (c *comparer) finding(q question, row, message, expected, got string) *auditFinding {
	const most = 600
	return &auditFinding{Kind: kindAnswer, Query: fmt.Sprintf("%s as of %d", q, c.size), Row: row, Message: message,
		Expected: fmt.Sprintf("%.*s", most, expected), Got: fmt.Sprintf("%.*s", most, got)}
}

// errAnswer: an answer is not of the form that it has to have.
var errAnswer = errors.New("the answer is malformed")

// answerPage is a page of an answer. It owns its memory.
type answerPage struct {
	status   int
	why      string
	document pyjson.Document
}

// says is the status and what is wrong, where it is no success.
func (p *answerPage) says() string {
	if p.status == http.StatusOK {
		return strconv.Itoa(p.status)
	}
	return p.why
}

func (c *comparer) first(ctx context.Context, from *fetcher, q question) (*answerPage, error) {
	return c.fetch(ctx, from, q, "", "")
}

// fetch fetches a page. A status other than 200 is one of the answers, unless it says
// that whoever asks may not.
func (c *comparer) fetch(ctx context.Context, from *fetcher, q question, cursor, position string) (*answerPage, error) {
	answer, err := from.get(ctx, q.at(c.size, c.page, cursor, position), maxAuditJSON)
	if err != nil {
		return nil, err
	}
	p := &answerPage{status: answer.status, why: answer.why}
	switch answer.status {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, exitf(exitFailed, "the answers cannot be audited: %s", answer.why)
	default:
		return p, nil
	}
	if err := p.document.Parse(answer.body); err != nil {
		return nil, fmt.Errorf("%w: %w", errAnswer, err)
	}
	root := p.document.Root()
	if root.Kind() != pyjson.Object || position == "" && string(root.Member("as_of").Raw()) != decimal(c.size) {
		return nil, fmt.Errorf("%w: it is not as of size %d", errAnswer, c.size)
	}
	return p, nil
}

// differs finds the first member of two answers that differs, but for lists, and where
// they go on.
func (c *comparer) differs(expected, got *answerPage, lists []answerList) (member string, a, b []byte, differ bool) {
	for _, side := range [...]*answerPage{expected, got} {
		for name := range side.document.Root().Members() {
			member = string(name.Text())
			if slices.ContainsFunc(lists, func(l answerList) bool { return member == l.next || slices.Contains(l.members, member) }) {
				continue
			}
			if a, b = c.member(expected, member), c.member(got, member); !bytes.Equal(a, b) {
				return member, a, b, true
			}
		}
	}
	return "", nil, nil, false
}

// member is a member of an answer in canonical form; nil where there is none as of the
// size.
func (c *comparer) member(p *answerPage, name string) []byte {
	v := p.document.Root().Member(name)
	if name == redactedMember && c.isLater(v) {
		return nil
	}
	return canonical(v)
}

func canonical(v pyjson.Value) []byte { return v.AppendCanonical(nil, pyjson.Compact) }

// compareList compares two lists row by row, and finds the first difference.
func (c *comparer) compareList(ctx context.Context, q question, list answerList, member string, expected, got *answerPage) (n uint64, finding *auditFinding, err error) {
	nextExpected, stop := iter.Pull2(c.rows(ctx, c.copied, q, list, member, expected))
	defer stop()
	nextGot, stop := iter.Pull2(c.rows(ctx, c.server, q, list, member, got))
	defer stop()
	for ; ; n++ {
		a, errA, moreA := nextExpected()
		b, errB, moreB := nextGot()
		switch {
		case errA != nil || errB != nil:
			return n, nil, errors.Join(errA, errB)
		case !moreA && !moreB:
			return n, nil, nil
		case moreA && moreB && bytes.Equal(a, b):
			continue
		}
		a2, _, _ := nextExpected()
		b2, _, _ := nextGot()
		return n, c.differing(q, fmt.Sprintf("%s[%d]", member, n), [2][]byte{a, a2}, [2][]byte{b, b2}), nil
	}
}

// differing says how two lists differ, by the first rows that do and those behind.
func (c *comparer) differing(q question, place string, expected, got [2][]byte) *auditFinding {
	message := "the row differs"
	a, b := expected[0], got[0]
	switch {
	case b == nil, a != nil && !sameRow(a, b) && (bytes.Equal(expected[1], b) || expected[1] != nil && sameRow(expected[1], b)):
		message, b = "a row is left out", nil
	case a == nil, !sameRow(a, b) && (bytes.Equal(got[1], a) || got[1] != nil && sameRow(got[1], a)):
		message, a = "a row is added", nil
	}
	f := c.finding(q, place, message, string(a), string(b))
	if row := a; row != nil || b != nil {
		if row == nil {
			row = b
		}
		f.Seq = seqOf(row)
	}
	return f
}

// rowNames are the members that name a row.
var rowNames = [...]string{"seq", "kind", "by", "value", "output_hash", "chunk_hash", "source_id", "id", "from", "project", "path_id", "build", "stage",
	"failure_stage", "audit_mode", "shape"}

// sameRow reports whether two rows are about the same.
func sameRow(a, b []byte) bool {
	var x, y pyjson.Document
	if x.Parse(a) != nil || y.Parse(b) != nil {
		return false
	}
	for _, name := range rowNames {
		if !bytes.Equal(x.Root().Member(name).Raw(), y.Root().Member(name).Raw()) {
			return false
		}
	}
	return true
}

// seqOf is the seq of a row; nil if it has none.
func seqOf(row []byte) *uint64 {
	var r struct {
		Seq *uint64 `json:"seq"`
	}
	if json.Unmarshal(row, &r) != nil {
		return nil
	}
	return r.Seq
}

// emptyPages is how many pages in a row may have no row: each has looked at thousands
// of keys.
func (c *comparer) emptyPages() uint64 { return 1000 + c.size/100 }

// rows yields the rows of a list to its end, page by page, in canonical form.
func (c *comparer) rows(ctx context.Context, from *fetcher, q question, list answerList, member string, page *answerPage) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for empty := uint64(0); ; {
			root := page.document.Root()
			if rows := root.Member(member); rows.Kind() != pyjson.Array {
				yield(nil, fmt.Errorf("%w: its %s is no list", errAnswer, member))
				return
			}
			empty++
			for row := range root.Member(member).Elements() {
				empty = 0
				if !yield(c.row(row), nil) {
					return
				}
			}
			next := root.Member(list.next)
			if next.Kind() != pyjson.String || list.next == "" {
				return
			}
			if empty > c.emptyPages() {
				yield(nil, fmt.Errorf("%w: it has %d pages without a row one after the other, and no end", errAnswer, empty))
				return
			}
			var err error
			page, err = c.fetch(ctx, from, q, list.cursor, string(next.Text()))
			if err == nil && page.status != http.StatusOK {
				err = fmt.Errorf("%w: its next page: %s", errAnswer, page.why)
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// redactedMember is the one member of answers that is not as of a size, but live (2.6):
// the event that has redacted the record.
const redactedMember = "redacted_by"

// isLater reports whether it names an event that is not there yet at the size.
func (c *comparer) isLater(redactedBy pyjson.Value) bool {
	n, err := strconv.ParseUint(string(redactedBy.Raw()), 10, 64)
	return err == nil && n >= c.size
}

// row is a row in canonical form, without what is not as of the size.
func (c *comparer) row(v pyjson.Value) []byte {
	if !c.isLater(v.Member(redactedMember)) {
		return canonical(v)
	}
	row := []byte{'{'}
	for name, value := range v.Members() {
		if string(name.Text()) != redactedMember {
			row = append(append(append(append(row, name.Raw()...), ':'), value.Raw()...), ',')
		}
	}
	var d pyjson.Document
	if d.Parse(append(bytes.TrimSuffix(row, []byte{','}), '}')) != nil {
		return canonical(v)
	}
	return canonical(d.Root())
}

// askAll asks questions, some at once, and gives each what came of it in their order
// until it wants no more. No question is under way when it returns: what answers them may
// be closed then.
func (c *comparer) askAll(ctx context.Context, questions []question, parallel int, each func(int, comparedAnswer) bool) {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan chan comparedAnswer, parallel-1)
	asking.Go(func() {
		defer close(answers)
		for _, q := range questions {
			answer := make(chan comparedAnswer, 1)
			select {
			case answers <- answer:
			case <-ctx.Done():
				return
			}
			asking.Go(func() { answer <- c.ask(ctx, q) })
		}
	})
	done := 0
	for answer := range answers {
		done++
		if !each(done, <-answer) {
			return
		}
	}
}
