package efsmount

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// request is what mount.efs is called for.
type request struct {
	fileSystem string // "fs-0123456789abcdef0"
	host       string // its DNS name, where it was named by that
	path       string
	mountpoint string
	options    map[string]string
	order      []string // of options, as given
	verbose    bool
	fake       bool // do everything but mount(2)
}

var (
	fileSystemID  = regexp.MustCompile(`^fs-[0-9a-f]+$`)
	fileSystemDNS = regexp.MustCompile(
		`^(?:([a-z0-9-]+)\.)?(fs-[0-9a-f]+)\.efs\.([a-z0-9-]+)\.(amazonaws\.com(?:\.cn)?)$`)
	label         = regexp.MustCompile(`^[a-z0-9-]+$`)
	accessPointID = regexp.MustCompile(`^fsap-[0-9a-f]{17}$`)
)

// Options of amazon-efs-utils. Those in without are about its proxy, and have no effect; refused are not served.
var (
	own = []string{"accesspoint", "awscredsuri", "awsprofile", "az", "iam", "jwtpath", "mounttargetip", "region",
		"rolearn", "tls"}
	without = []string{"cafile", "noocsp", "notls", "ocsp", "stunnel", "tlsport", "verify"}
	refused = map[string]string{
		"capath":       "the certificate authorities of amazon-efs-utils are in no directory",
		"crossaccount": "a file system of another account is not reached here",
		"netns":        "run mount in that network namespace",
		"fsap":         "use the option accesspoint",
	}
)

// usageError is the error of arguments that mount.efs does not take.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func wrong(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// parse reads the arguments: "SOURCE DIRECTORY [-sfnv] [-o OPTIONS]".
func parse(args []string) (r request, err error) {
	r.options = map[string]string{}
	var positions []string
	for i := 0; i < len(args); i++ {
		switch word := args[i]; {
		case word == "-o" || word == "-t" || word == "-N":
			if i++; i == len(args) {
				return r, wrong("%s needs a value", word)
			}
			if word == "-o" {
				r.addOptions(args[i])
			}
			if word == "-N" {
				return r, wrong("the mount namespace %s: run mount in it", args[i])
			}
		case strings.HasPrefix(word, "-") && strings.Trim(word[1:], "sfnv") == "" && word != "-":
			r.fake, r.verbose = r.fake || strings.Contains(word, "f"), r.verbose || strings.Contains(word, "v")
		case strings.HasPrefix(word, "-"):
			return r, wrong("%s is no option of mount.efs", word)
		default:
			positions = append(positions, word)
		}
	}
	if len(positions) != 2 {
		return r, wrong("usage: mount.efs FILE-SYSTEM-ID[:/DIRECTORY] MOUNTPOINT [-o OPTIONS]")
	}
	r.mountpoint = positions[1]
	if err := r.readSource(positions[0]); err != nil {
		return r, err
	}
	return r, r.check()
}

func (r *request) addOptions(text string) {
	for word := range strings.SplitSeq(text, ",") {
		if key, value, _ := strings.Cut(word, "="); key != "" {
			if _, again := r.options[key]; !again {
				r.order = append(r.order, key)
			}
			r.options[key] = value
		}
	}
}

func (r *request) readSource(source string) error {
	remote, path, ok := strings.Cut(source, ":")
	r.path = "/"
	if ok && path != "" {
		r.path = path
	}
	if fileSystemID.MatchString(remote) {
		r.fileSystem = remote
		return nil
	}
	m := fileSystemDNS.FindStringSubmatch(remote)
	if m == nil {
		return wrong("The specified domain name %q is no DNS name of an EFS file system. Name the file system by its ID "+
			"(fs-...), or by its DNS name: https://docs.aws.amazon.com/efs/latest/ug/mounting-fs-mount-cmd-dns-name.html",
			remote)
	}
	r.fileSystem, r.host = m[2], remote
	if az, set := r.options["az"]; set && m[1] != "" && az != m[1] {
		return wrong("The hostname %q does not match the az provided in the mount options, expected = %s, given = %s",
			remote, az, m[1])
	}
	return nil
}

// check refuses options that contradict each other, in the words of amazon-efs-utils.
func (r *request) check() error {
	has := func(key string) bool { _, ok := r.options[key]; return ok }
	for _, key := range r.order {
		if why, ok := refused[key]; ok {
			return wrong("The %q option is not supported: %s", key, why)
		}
	}
	for _, pair := range []struct {
		key, needs string
		says       string
	}{
		{"accesspoint", "tls", `The "tls" option is required when mounting via "accesspoint"`},
		{"iam", "tls", `The "tls" option is required when mounting via "iam"`},
		{"awsprofile", "iam", `The "iam" option is required when mounting with named profile option, "awsprofile"`},
		{"awscredsuri", "iam", `The "iam" option is required when mounting with "awscredsuri"`},
		{"rolearn", "jwtpath", `The "jwtpath" option is required with "rolearn"`},
		{"jwtpath", "rolearn", `The "rolearn" option is required with "jwtpath"`},
	} {
		if has(pair.key) && !has(pair.needs) {
			return usageError{pair.says}
		}
	}
	for _, pair := range [][2]string{{"port", "tls"}, {"ocsp", "noocsp"}, {"tls", "notls"},
		{"awscredsuri", "awsprofile"}} {
		if has(pair[0]) && has(pair[1]) {
			return wrong("The %q and %q options are mutually exclusive", pair[0], pair[1])
		}
	}
	if has("accesspoint") && !accessPointID.MatchString(r.options["accesspoint"]) {
		return wrong("Access Point ID %s is malformed", r.options["accesspoint"])
	}
	for _, key := range []string{"region", "az"} { // parts of names
		if has(key) && !label.MatchString(r.options[key]) {
			return wrong("The %s %.60q is malformed", key, r.options[key])
		}
	}
	if has("awscredsuri") && !strings.HasPrefix(r.options["awscredsuri"], "/") {
		return wrong("awscredsuri %s is malformed", r.options["awscredsuri"])
	}
	return nil
}

// checkFargate refuses options about credentials: on Fargate mount.efs mounts what a cluster's users write, and would
// read files as root of the machine, and send them away.
func (r *request) checkFargate() error {
	for _, key := range []string{"awscredsuri", "awsprofile", "jwtpath", "rolearn"} {
		if _, ok := r.options[key]; ok {
			return wrong("The %q option is not supported on Fargate: pods mount as their pod execution role", key)
		}
	}
	return nil
}

// dnsName returns the DNS name of the file system, or of its mount target in a zone.
func (r *request) dnsName(region string) string {
	if r.host != "" {
		return r.host
	}
	suffix := "amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		suffix += ".cn"
	}
	name := fmt.Sprintf("%s.efs.%s.%s", r.fileSystem, region, suffix)
	if az := r.options["az"]; az != "" {
		name = az + "." + name
	}
	return name
}

// passed returns the options that are passed on to mount(2): those of NFS.
func (r *request) passed() (words []string) {
	for _, key := range r.order {
		if _, isFlag := flags[key]; isFlag || slices.Contains(own, key) || slices.Contains(without, key) {
			continue
		}
		word := key
		if value := r.options[key]; value != "" {
			word += "=" + value
		}
		words = append(words, word)
	}
	return words
}
