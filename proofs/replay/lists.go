package replay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"

	"colophon/ledger/record/pyjson"
	"colophon/proofs/monitor"
	"colophon/proofs/monitor/fetch"
)

// compareList compares two lists row by row. It stops at the first difference and returns a finding
// for it. n is the number of equal rows.
func (c *comparer) compareList(ctx context.Context, q question, list answerList, member string, expected, got *answerPage) (n uint64, finding *monitor.Finding, err error) {
	nextExpected, stop := iter.Pull2(c.rows(ctx, c.reference, q, list, member, expected, nil))
	defer stop()
	nextGot, stop := iter.Pull2(c.rows(ctx, c.server, q, list, member, got, expected))
	defer stop()
	for ; ; n++ {
		b, errB, moreB := nextGot()
		if errors.Is(errB, errPageLimit) {
			return n, nil, nil
		}
		a, errA, moreA := nextExpected()
		switch {
		case errA != nil:
			return n, nil, fmt.Errorf("querying the local copy of the log: %w", errA)
		case errB != nil:
			return n, nil, errB
		case !moreA && !moreB:
			return n, nil, nil
		case moreA && moreB && (bytes.Equal(a, b) || c.sameRowExceptRedaction(q, a, b, got.atLeast)):
			continue
		}
		a2, _, _ := nextExpected()
		b2, _, _ := nextGot()
		return n, differing(q, got, fmt.Sprintf("%s[%d]", member, n), [2][]byte{a, a2}, [2][]byte{b, b2}), nil
	}
}

// differing returns the finding for two lists that differ. expected and got each contain the first
// row that differs and the row after it. A row beyond the end of a list is nil.
func differing(q question, page *answerPage, place string, expected, got [2][]byte) *monitor.Finding {
	message := "the row differs from the expected one"
	a, b := expected[0], got[0]
	switch {
	case b == nil, a != nil && !sameRow(a, b) && (bytes.Equal(expected[1], b) || expected[1] != nil && sameRow(expected[1], b)):
		message, b = "a row is missing", nil
	case a == nil, !sameRow(a, b) && (bytes.Equal(got[1], a) || got[1] != nil && sameRow(got[1], a)):
		message, a = "the list has an extra row", nil
	}
	f := findingAt(q, page, place, message, string(a), string(b))
	if row := a; row != nil || b != nil {
		if row == nil {
			row = b
		}
		f.Seq = seqOf(row)
	}
	return f
}

// rowNames lists the members that identify a row.
var rowNames = [...]string{"seq", "kind", "by", "value", "output_hash", "chunk_hash", "source_id", "id", "from", "project", "path_id", "build", "stage",
	"failure_stage", "audit_mode", "shape"}

// sameRow reports whether two rows agree in the members that identify a row.
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

// seqOf returns the seq of a row, or nil if it has none.
func seqOf(row []byte) *uint64 {
	var r struct {
		Seq *uint64 `json:"seq"`
	}
	if json.Unmarshal(row, &r) != nil {
		return nil
	}
	return r.Seq
}

// emptyPages returns the maximum number of consecutive empty pages that the audit accepts in a
// list. A correct server skips thousands of keys before it returns an empty page.
func (c *comparer) emptyPages() uint64 { return 1000 + c.size/100 }

// errPageLimit ends the iteration over a list once the maximum number of pages has been compared.
var errPageLimit = errors.New("the list has more pages than the audit reads")

// rows yields the rows of a list in canonical form, page by page, starting with page. If from is
// the reference, expected is nil. If from is the server, expected is the reference's first page.
// Later pages of the server must then equal expected apart from the list, and rows yields
// errPageLimit if the list continues after q.pages pages.
func (c *comparer) rows(ctx context.Context, from source, q question, list answerList, member string, page, expected *answerPage) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for empty, read := uint64(0), 1; ; read++ {
			root := page.document.Root()
			if rows := root.Member(member); rows.Kind() != pyjson.Array {
				yield(nil, fmt.Errorf("%w: the member %q is not an array", fetch.ErrMalformed, member))
				return
			}
			empty++
			for row := range root.Member(member).Elements() {
				empty = 0
				if !yield(canonical(row), nil) {
					return
				}
			}
			next := root.Member(list.next)
			switch {
			case next.Kind() == pyjson.Absent || list.next == "":
				return
			case next.Kind() != pyjson.String || len(next.Text()) == 0:
				yield(nil, fmt.Errorf("%w: the member %q is not a cursor", fetch.ErrMalformed, list.next))
				return
			case empty > c.emptyPages():
				yield(nil, fmt.Errorf("%w: the list continues after %d consecutive pages without rows", fetch.ErrMalformed, empty))
				return
			case read == q.pages && expected != nil:
				yield(nil, errPageLimit)
				return
			}
			var err error
			page, err = c.next(ctx, from, q, list, page, string(next.Text()))
			if err == nil && expected != nil {
				err = c.compareRest(ctx, q, list, expected, page)
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// compareRest compares a later page with the reference's first page, apart from the list that the
// page continues. It returns a *badAnswer if they differ.
func (c *comparer) compareRest(ctx context.Context, q question, list answerList, expected, got *answerPage) error {
	f := c.comparePages(q, expected, got)
	for _, other := range q.lists {
		if f != nil || other.next == list.next {
			continue
		}
		for _, member := range other.members {
			n, after, differs, err := c.compareRanked(ctx, q, other, member, expected, got, 0)
			if f = differs; err == nil && f == nil {
				f, err = c.checkEnd(ctx, q, other, member, n, got, after)
			}
			if err != nil {
				return err
			}
		}
	}
	if f != nil {
		return &badAnswer{f.Row, f.Message, f.Expected, f.Got}
	}
	return nil
}

// checkEnd checks the cursor of a server's page that ends before row n. after is the reference's
// row n, or nil if the list has only n rows. If row n exists, the page must have a cursor that
// points to it. Otherwise, a cursor is optional but must point to the end of the list.
func (c *comparer) checkEnd(ctx context.Context, q question, list answerList, member string, n uint64, got *answerPage, after []byte) (*monitor.Finding, error) {
	next := got.document.Root().Member(list.next)
	switch {
	case next.Kind() != pyjson.Absent:
		return c.checkCursor(ctx, q, list, member, got, string(next.Text()), after)
	case after != nil:
		return findingAt(q, got, fmt.Sprintf("%s[%d]", member, n), "a row is missing", string(after), ""), nil
	}
	return nil, nil
}

// next requests the page of a list that follows page. position is the cursor from page.
func (c *comparer) next(ctx context.Context, from source, q question, list answerList, page *answerPage, position string) (*answerPage, error) {
	limit := maxRows
	if from == c.server { // the limit is pseudo-random, but always the same for a given question and cursor
		sum := sha256.Sum256([]byte(q.String() + "\x00" + position))
		limit = anyLimit(binary.BigEndian.Uint64(sum[:]), 1)
	}
	next, err := c.request(ctx, from, q, pageRequest{limit: limit, cursor: list.cursor, position: position})
	switch {
	case err == nil && next.status != http.StatusOK:
		err = fmt.Errorf("%w: the request for the next page failed: %s", fetch.ErrMalformed, next.problem)
	case err == nil && next.size != page.size && !q.atHead:
		err = fmt.Errorf("%w: the next page is for tree size %d, not %d", fetch.ErrMalformed, next.size, page.size)
	}
	return next, err
}

// compareRanking compares a list whose pages each reflect the head at the time of the request. If
// mayGrow is true, the reference grows to the size of each page. Otherwise, compareRanking stops
// when the sizes differ and sets needsGrowth in the result.
func (c *comparer) compareRanking(ctx context.Context, q question, got *answerPage, mayGrow bool) (result comparison) {
	list, member := q.lists[0], q.lists[0].members[0]
	position := ""
	for pages := 1; ; pages++ {
		expected, err := c.expect(ctx, q, got, position)
		if err != nil {
			return comparison{err: err}
		}
		if f := c.comparePages(q, expected, got); f != nil {
			return comparison{finding: f}
		}
		n, after, f, err := c.compareRanked(ctx, q, list, member, expected, got, result.rows)
		result.rows += n
		if err != nil {
			return failed(q, err)
		}
		if f != nil {
			return comparison{finding: f}
		}
		if f, err := c.checkEnd(ctx, q, list, member, result.rows, got, after); f != nil || err != nil {
			if err != nil {
				return failed(q, err)
			}
			return comparison{finding: f}
		}
		if got.document.Root().Member(list.next).Kind() == pyjson.Absent {
			return result
		}
		position = string(got.document.Root().Member(list.next).Text())
		if pages == q.pages {
			return result
		}
		if got, err = c.next(ctx, c.server, q, list, got, position); err != nil {
			return failed(q, err)
		}
		if got.size != c.size && !mayGrow {
			return comparison{needsGrowth: true}
		}
		if err := c.grow(ctx, got.size); err != nil {
			return failed(q, err)
		}
		if got.size != c.size {
			return comparison{finding: findingAt(q, got, "", "the response is for a smaller tree size than the server has already reported", "at least "+decimal(c.size), decimal(got.size))}
		}
	}
}

// compareRanked compares the rows of the server's page got, which may have fewer rows than the
// reference's page. before is the number of rows on earlier pages. n is the number of equal rows,
// and after is the reference's next row, or nil if there is none.
func (c *comparer) compareRanked(ctx context.Context, q question, list answerList, member string, expected, got *answerPage, before uint64) (n uint64, after []byte, f *monitor.Finding, err error) {
	next, stop := iter.Pull2(c.rows(ctx, c.reference, q, list, member, expected, nil))
	defer stop()
	rows := got.document.Root().Member(member)
	if rows.Kind() != pyjson.Array {
		return 0, nil, nil, fmt.Errorf("%w: the member %q is not an array", fetch.ErrMalformed, member)
	}
	var given [][]byte
	for row := range rows.Elements() {
		given = append(given, canonical(row))
	}
	for i, row := range given {
		a, err, more := next()
		if err != nil {
			return n, nil, nil, err
		}
		if !more || !bytes.Equal(a, row) {
			a2, _, _ := next()
			var b2 []byte
			if i+1 < len(given) {
				b2 = given[i+1]
			}
			return n, nil, differing(q, got, fmt.Sprintf("%s[%d]", member, before+n), [2][]byte{a, a2}, [2][]byte{row, b2}), nil
		}
		n++
	}
	after, err, _ = next()
	return n, after, nil, err
}

// checkCursor checks a cursor from the server. position must point to the row in after, or to the
// end of the list if after is nil.
func (c *comparer) checkCursor(ctx context.Context, q question, list answerList, member string, got *answerPage, position string, after []byte) (*monitor.Finding, error) {
	page, err := c.request(ctx, c.reference, q, pageRequest{limit: got.limit, cursor: list.cursor, position: position})
	if err != nil {
		return nil, fmt.Errorf("querying the local copy of the log: %w", err)
	}
	if page.status != http.StatusOK {
		return findingAt(q, got, list.next, "the cursor is not valid for this log", "", position), nil
	}
	next, stop := iter.Pull2(c.rows(ctx, c.reference, q, list, member, page, nil))
	defer stop()
	row, err, _ := next()
	if err != nil || bytes.Equal(row, after) {
		return nil, err
	}
	return findingAt(q, got, list.next, "the cursor points to a different row", string(after), string(row)), nil
}
