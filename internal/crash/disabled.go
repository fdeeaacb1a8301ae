//go:build !crashpoints

package crash

// Enabled reports whether this build can be killed at its points.
const Enabled = false

// Point is an instruction at which a test build can be killed.
type Point struct{}

// At defines a point, in a test build.
func At(string) Point { return Point{} }

// Name returns the point's name, in a test build.
func (Point) Name() string { return "" }

// Here does nothing.
func (Point) Here() {}

// Points returns the names of all points of the program: none.
func Points() []string { return nil }
