// Package environment chooses what of this program's environment the programs get that it starts.
//
// People keep secrets in the environment: keys of AWS, tokens of CI, passwords of databases. Everybody who runs as the
// same user can read them in /proc as long as a process lives, and so can whatever the process executes. So what lives
// on gets what it is known to need, by name, and nothing else.
package environment

import (
	"os"
	"slices"
	"strings"
)

// common are variables that tell programs about their user and host.
var common = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_CACHE_HOME",
	"XDG_CONFIG_HOME", "XDG_DATA_HOME"}

// network are variables that say how the internet is reached. A proxy's may hold a password, which is for whoever
// connects through it.
var network = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR",
}

// git are variables by which the Go command reaches private modules.
var git = []string{"NETRC", "SSH_AUTH_SOCK", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_TERMINAL_PROMPT"}

// ForGo returns what the Go command gets that builds programs of nodes and add-ons: its own configuration, and how it
// reaches modules.
func ForGo() []string {
	return filterVariables(func(name string) bool {
		return slices.Contains(common, name) || slices.Contains(network, name) || slices.Contains(git, name) ||
			isGoVariable(name)
	})
}

// ForDaemon returns what a daemon in the background gets: its own configuration, which it gives to none of its
// children, and what it needs to build and to download.
func ForDaemon() []string {
	goes := ForGo()
	return append(goes, filterVariables(func(name string) bool { return strings.HasPrefix(name, "CORACLE_") })...)
}

// isGoVariable reports whether a variable is the Go command's or the Go runtime's: GOPROXY, GOMEMLIMIT.
// GOOGLE_APPLICATION_CREDENTIALS is not.
func isGoVariable(name string) bool {
	return name == "GO_EXTLINK_ENABLED" || strings.HasPrefix(name, "GO") && !strings.Contains(name, "_")
}

func filterVariables(wanted func(name string) bool) []string {
	var chosen []string
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); wanted(name) {
			chosen = append(chosen, variable)
		}
	}
	return chosen
}
