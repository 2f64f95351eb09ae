package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/internal/doctor"
)

func TestDoctorOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		verdict         doctor.Verdict
		other           doctor.Verdict
		lenient, strict int
	}{
		"advice":                {doctor.VerdictAdvice, doctor.VerdictOK, cli.ExitOK, cli.ExitOK},
		"not checked":           {doctor.VerdictOK, doctor.VerdictNotChecked, cli.ExitOK, cli.ExitUnchecked},
		"wrong and not checked": {doctor.VerdictWrong, doctor.VerdictNotChecked, cli.ExitFailed, cli.ExitFailed},
	} {
		report := doctor.Report{Verdict: c.verdict, Findings: []doctor.Finding{{Verdict: c.verdict}, {Verdict: c.other}}}
		for strict, want := range map[bool]int{false: c.lenient, true: c.strict} {
			exit := &cli.ExitError{}
			require.Equal(t, want != cli.ExitOK, errors.As(doctorOutcome(report, strict), &exit), name)
			require.Equal(t, want, exit.Code, name)
		}
	}
}
