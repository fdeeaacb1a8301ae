package ec2

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// Limits of the filters of a request.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Filtering.html
const (
	maxFilters      = 50
	maxFilterValues = 200
	// maxGlobSteps is how many characters are compared for a request: a second of a processor. Patterns with many
	// wildcards need a product of their length and that of each value.
	maxGlobSteps = 200_000_000
)

// checkFilters demands that there are not too many filters, or values of one.
func checkFilters(filters []types.Filter) error {
	if len(filters) > maxFilters {
		return wire.Errorf("FilterLimitExceeded", "The maximum number of filters specified on a single call is %d",
			maxFilters)
	}
	for _, f := range filters {
		if len(f.Values) > maxFilterValues {
			return wire.Errorf("FilterLimitExceeded",
				"The maximum number of filter values specified on a single call is %d", maxFilterValues)
		}
	}
	return nil
}

// globs matches values with the patterns of one request, as long as that takes no more than it may.
type globs struct {
	ctx   context.Context
	steps int
	err   error
}

// matchesAny reports whether one of the patterns fits a value; false once g.err is set.
func (g *globs) matchesAny(patterns []string, value string) bool {
	if g.err != nil {
		return false
	}
	if g.err = g.ctx.Err(); g.err != nil {
		return false
	}
	fits := slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, steps := matchGlob(pattern, value)
		g.steps += steps
		return ok
	})
	if g.steps > maxGlobSteps {
		g.err = wire.Errorf("FilterLimitExceeded",
			"The filters take too long to evaluate: give fewer values, or values with fewer wildcards.")
	}
	return fits
}

// matchGlob reports whether a pattern fits a value, and how many characters it has compared: in a pattern * stands for
// any text, ? for any character, and \ takes that meaning away.
func matchGlob(pattern, value string) (fits bool, steps int) {
	p, v := 0, 0
	star, from := -1, 0 // behind the last *, and where in value what it stands for ends
	for v < len(value) {
		steps++
		if p < len(pattern) && pattern[p] == '*' {
			p++
			star, from = p, v
			continue
		}
		if n, ok := matchCharacter(pattern[p:], value[v]); ok {
			p, v = p+n, v+1
			continue
		}
		if star < 0 {
			return false, steps
		}
		from++ // the * stands for one more
		p, v = star, from
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
		steps++
	}
	return p == len(pattern), steps + 1
}

// matchCharacter matches the first character of a pattern, of n bytes there, that is no *.
func matchCharacter(pattern string, c byte) (n int, ok bool) {
	switch {
	case pattern == "":
		return 0, false
	case pattern[0] == '?':
		return 1, true
	case pattern[0] == '\\' && len(pattern) > 1:
		return 2, pattern[1] == c
	}
	return 1, pattern[0] == c
}
