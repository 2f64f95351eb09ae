package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// Confirm has the name of the ledger typed, on a terminal, once it has said why; done
// is what else was not done to it.
func (c *Console) Confirm(ctx context.Context, name, why, done string) error {
	if file, ok := c.In.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
		return Exitf(ExitUsage, "%s; pass --yes to do it without being asked", why)
	}
	fmt.Fprintf(c.Err, "Mind that %s. Type %q to do it: ", why, name)
	typed := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(c.In).ReadString('\n') // what cannot be read is not the name
		typed <- strings.TrimSpace(line)
	}()
	select {
	case line := <-typed:
		if line == name {
			return nil
		}
		return Exitf(ExitFailed, "that is not its name; nothing was %s", done)
	case <-ctx.Done():
		fmt.Fprintln(c.Err)
		return Exitf(ExitFailed, "interrupted; nothing was %s", done)
	}
}
