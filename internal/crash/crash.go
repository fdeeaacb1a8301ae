// Package crash names the instructions at which a test may kill the daemon.
//
// A [Point] stands where something has just been changed on the host or in the store and something else must follow. In
// a test build (go build -tags crashpoints), with CORACLE_CRASH_AT set to a point's name, or several with commas
// between them, the process dies at the first that it reaches with SIGKILL, as if the machine had lost its power; a
// test that starts it again must see it converge.
//
// In every other build points are nothing: nobody who can set a variable can kill a daemon with it.
package crash

// Environment is the variable that names the points to die at.
const Environment = "CORACLE_CRASH_AT"

// Require skips a test that kills a daemon, where that cannot be done. t is a testing.TB.
func Require(t interface {
	Helper()
	Skip(args ...any)
}) {
	t.Helper()
	if !Enabled {
		t.Skip("this build has no crash points: run the tests with -tags crashpoints, as \"make test\" does")
	}
}
