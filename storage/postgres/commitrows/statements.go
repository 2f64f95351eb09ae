package commitrows

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// statements is a queue of statements for one ledger that are sent to the server together.
type statements struct {
	ledger []byte // the ledger's number, encoded as a bigint
	queued []statement
}

// statement is a query with its parameters, which are encoded in PostgreSQL's binary format.
type statement struct {
	query      string
	parameters [][]byte
	row        func(values [][]byte) // receives each row of the result in PostgreSQL's binary format; may be nil
	rows       int64                 // required number of changed rows, or 0 if any number is allowed; send returns ErrRefused if the number differs
}

func (s *statements) add(query string, parameters ...[]byte) {
	s.queued = append(s.queued, statement{query: query, parameters: parameters})
}

var binaryFormat = []int16{pgx.BinaryFormatCode} // format code of all parameters and results

// send sends all queued statements together and returns the first error. Each statement stays
// prepared on the connection.
func (s *statements) send(ctx context.Context, conn *pgx.Conn) error {
	var batch pgconn.Batch
	for i := range s.queued {
		prepared, err := conn.Prepare(ctx, s.queued[i].query, s.queued[i].query)
		if err != nil {
			return err
		}
		formats := binaryFormat
		if len(s.queued[i].parameters) == 0 {
			formats = nil
		}
		batch.ExecPrepared(prepared.Name, s.queued[i].parameters, formats, binaryFormat)
	}
	results := conn.PgConn().ExecBatch(ctx, &batch)
	var failed error
	for i := 0; failed == nil && results.NextResult(); i++ {
		result := results.ResultReader()
		for row := s.queued[i].row; row != nil && result.NextRow(); {
			row(result.Values())
		}
		tag, err := result.Close()
		if want := s.queued[i].rows; err == nil && want != 0 && tag.RowsAffected() != want {
			err = ErrRefused
		}
		failed = err
	}
	s.queued = nil
	return cmp.Or(failed, results.Close())
}
