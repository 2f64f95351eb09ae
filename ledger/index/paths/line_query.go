package paths

import (
	"fmt"

	"colophon/ledger/index"
	"colophon/ledger/index/rowstore"
)

// validationStatus is the effect of the validations of a path on one of its records.
type validationStatus struct {
	validated bool
	// before is the seq of an earlier validation of the same content in the same line of builds. That
	// validation does not apply to the record. before is 0 if there is none, or if another one applies.
	before uint64
}

// validationStatusOf returns the effect that the validations among the first size events have on a record
// (spec: Validation of paths). The validation that applies is the last one of the record's span that is
// in the record's line of builds.
func validationStatusOf(v *index.View, project, path rowstore.Identity, s *pathState, size uint64) (validationStatus, error) {
	_, last, err := lastInLine(v, project, validations, numbered(path, s.span), s, size, nil)
	if err != nil || last != nil {
		return validationStatus{validated: last != nil && last.validated}, err
	}
	var before uint64
	for _, row := range s.validationRows(path) {
		seq, found, err := lastInLine(v, project, contentValidations, row[:], s, size, &s.span)
		if err != nil {
			return validationStatus{}, err
		}
		if found != nil && seq >= before {
			before, last = seq, found
		}
	}
	if last == nil || !last.validated {
		return validationStatus{}, nil
	}
	return validationStatus{before: before}, nil
}

// lastInLine searches a row for the newest validation of a build in the line of s. It returns the
// validation and its seq, or nil if there is none. If except is not nil, lastInLine skips the
// validations of the span *except.
func lastInLine(v *index.View, project rowstore.Identity, d rowstore.Dimension, row []byte, s *pathState, size uint64, except *uint64) (uint64, *validation, error) {
	for r, err := range v.VersionsNewestFirst(d, row, size) {
		if err != nil {
			return 0, nil, err
		}
		found, err := decodeValidation(r.Value)
		if err != nil {
			return 0, nil, err
		}
		if except != nil && found.span == *except {
			continue
		}
		in, err := inLine(v, project, found.build, s)
		if err != nil || in {
			return r.Seq, &found, err
		}
	}
	return 0, nil, nil
}

// inLine reports whether a build is in the line of a record. The line consists of the build s.line,
// its base, that build's base, and so on. Build 0 is only in the line of records without a build.
func inLine(v *index.View, project rowstore.Identity, build uint64, s *pathState) (bool, error) {
	if build == 0 {
		return s.build == 0, nil
	}
	at := s.line
	for at > build { // a base has a lower number than its build
		l, err := lineAt(v, project, at)
		if err != nil {
			return false, err
		}
		if l.base >= at || l.skip >= at {
			return false, fmt.Errorf("%w: build %d of project %x has an invalid base: %d", rowstore.ErrDamaged, at, project, l.base)
		}
		if at = l.base; l.skip >= build {
			at = l.skip
		}
	}
	return at == build, nil
}

// lineAt returns the line of a build, which must exist. The caller owns the result.
func lineAt(v *index.View, project rowstore.Identity, build uint64) (line, error) {
	_, value, _, err := v.NewestVersion(lines, numbered(project, build))
	if err != nil {
		return line{}, err
	}
	return decodeLine(append([]byte(nil), value...))
}
