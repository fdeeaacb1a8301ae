package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/coracle-eks/coracle/internal/datadir"
)

// notRunning returns an error that says how to start the daemon of dir.
func notRunning(dir datadir.Dir) error {
	return fmt.Errorf("the daemon of %s is not running: start it with \"coracle up%s\"", dir, dataDirFlag(dir))
}

// dataDirFlag returns what to append to a suggested command of coracle so that it is about dir, if anything.
func dataDirFlag(dir datadir.Dir) string {
	standard := datadir.Default()
	if chosen := os.Getenv("CORACLE_DATA_DIR"); chosen != "" {
		standard = chosen
	}
	if standard, err := datadir.At(standard); err == nil && standard == dir {
		return ""
	}
	return " --data-dir " + shellQuote(string(dir))
}

// shellQuote returns s as a word of a shell command.
func shellQuote(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_./:@%+=,", r))
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
