package image

import (
	"io"

	"github.com/sirupsen/logrus"
)

// The registry's library logs a line for every request to logrus's one logger, which has no other user here. We log
// what we answer with ourselves.
func init() {
	logrus.SetOutput(io.Discard)
}
