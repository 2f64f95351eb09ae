package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"colophon/ledger/index"
	"colophon/storage"
)

// openComparison opens the query that compares two records, and reads the records that the
// parameters a and b name. article and kind appear in error messages. The caller closes the
// query.
func openComparison[R any](s *Server, c echo.Context, article, kind string, read func(context.Context, *index.View, uint64) (R, error)) (q *indexQuery, a, b R, err error) {
	var seqs [2]uint64
	var given [2]bool
	if q, err = s.openQueryAbout(c, []string{c.QueryParam("a"), c.QueryParam("b")}, withProofs, count("a", &seqs[0], &given[0]), count("b", &seqs[1], &given[1])); err != nil {
		return nil, a, b, err
	}
	named := func(i int, name string) (R, error) {
		var none R
		if !given[i] {
			return none, invalid(name, "is required: the seq of %s %s", article, kind)
		}
		if seqs[i] >= q.view.Size() {
			return none, invalid(name, "there is no event %d: the answer is as of size %d", seqs[i], q.view.Size())
		}
		found, err := read(q.ctx, q.view, seqs[i])
		if errors.Is(err, storage.ErrNotFound) {
			err = atPointer(http.StatusUnprocessableEntity, "/"+name, fmt.Sprintf("event %d is no %s", seqs[i], kind))
		}
		return found, err
	}
	if a, err = named(0, "a"); err == nil {
		b, err = named(1, "b")
	}
	if err != nil {
		q.close()
	}
	return q, a, b, err
}
