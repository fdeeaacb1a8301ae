package clusterinsight

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/kubernetes"
)

// The statuses of checks.
const (
	passing = ekstypes.InsightStatusValuePassing
	warning = ekstypes.InsightStatusValueWarning
	failing = ekstypes.InsightStatusValueError
	unknown = ekstypes.InsightStatusValueUnknown
)

// skew is by how many minor versions a kubelet or kube-proxy may be older than the API server.
// https://kubernetes.io/releases/version-skew-policy/
const skew = 3

// installed is an add-on that a cluster has.
type installed struct{ name, arn, version string }

// state is what checks are made of.
type state struct {
	plane      record.ControlPlane
	clusterARN string
	addons     []installed
	catalog    Catalog
	seen       *record.Insights
	unread     error // why the API server could not be asked now
}

func (s state) with(seen *record.Insights) state {
	s.seen = seen
	return s
}

// makeChecks returns the checks of a cluster before the upgrade to the next minor version; none when there is no newer
// one. A check that has the status it had before keeps the time of its last change.
func makeChecks(s state, before []record.InsightCheck, now time.Time) []record.InsightCheck {
	next, ok := nextVersion(s.plane.Version)
	if !ok {
		return nil
	}
	checks := []record.InsightCheck{
		s.kubelets(next), s.proxies(next), s.addonVersions(next), s.health(next),
	}
	checks = append(checks, deprecations(s.seen.Deprecated, s.plane.Version, next)...)
	for i := range checks {
		c := &checks[i]
		c.ChangedAt = now
		for _, b := range before {
			if b.Name == c.Name && b.Version == c.Version && b.Status == c.Status {
				c.ChangedAt = b.ChangedAt
			}
		}
	}
	return checks
}

// nextVersion returns the minor version after another one.
func nextVersion(version string) (string, bool) {
	for _, v := range kubernetes.Versions() {
		if kubernetes.MinorNumber(v.Minor) == kubernetes.MinorNumber(version)+1 {
			return v.Minor, true
		}
	}
	return "", false
}

func (s state) kubelets(next string) record.InsightCheck {
	c := record.InsightCheck{Name: "Kubelet version skew", Version: next, Status: passing,
		Reason: "Node kubelet versions match the cluster control plane version."}
	s.compare(&c, s.seen.Kubelets, "Node kubelet version", "node kubelet versions")
	return c
}

func (s state) proxies(next string) record.InsightCheck {
	c := record.InsightCheck{Name: "kube-proxy version skew", Version: next, Status: passing,
		Reason: "kube-proxy versions match the cluster control plane version."}
	s.compare(&c, s.seen.Proxies, "kube-proxy version", "kube-proxy versions")
	return c
}

// compare judges the versions of a component by that of the control plane and the next one.
func (s state) compare(c *record.InsightCheck, all []record.InsightVersion, one, several string) {
	if s.seen.ObservedAt.IsZero() {
		c.Status, c.Reason = unknown, "The "+several+" could not be read."
		if s.unread != nil {
			c.Reason = "The " + several + " could not be read: " + record.Reason(firstLine(s.unread.Error()))
		}
		return
	}
	control, next := kubernetes.MinorNumber(s.plane.Version), kubernetes.MinorNumber(c.Version)
	for _, v := range all {
		minor := minorOf(v.Version)
		status, reason := passing, ""
		switch {
		case next-minor > skew:
			status = failing
			reason = fmt.Sprintf("%s %s is more than %d minor versions older than Kubernetes v%s.", one, v.Version, skew,
				c.Version)
		case minor > control:
			status = failing
			reason = fmt.Sprintf("%s %s is newer than the cluster control plane version v%s.", one, v.Version,
				s.plane.Version)
		case minor < control:
			status = warning
			reason = fmt.Sprintf("%s %s is older than the cluster control plane version v%s.", one, v.Version,
				s.plane.Version)
		default:
			continue
		}
		if worse(status, c.Status) {
			c.Status, c.Reason = status, reason
		}
		for _, path := range v.Paths {
			if len(c.Resources) < maxPaths {
				c.Resources = append(c.Resources, ekstypes.InsightResourceDetail{
					KubernetesResourceUri: new(path),
					InsightStatus:         &ekstypes.InsightStatus{Status: status, Reason: new(reason)},
				})
			}
		}
	}
}

// worse reports whether a status is more serious than another one.
func worse(a, b ekstypes.InsightStatusValue) bool {
	order := []ekstypes.InsightStatusValue{passing, unknown, warning, failing}
	return slices.Index(order, a) > slices.Index(order, b)
}

func (s state) addonVersions(next string) record.InsightCheck {
	c := record.InsightCheck{Name: "EKS add-on version compatibility", Version: next, Status: passing,
		Reason: "All installed EKS add-on versions are compatible with next Kubernetes version."}
	var bad []string
	for _, a := range s.addons {
		entry, ok := s.catalog.Addon(a.name)
		if v, known := entry.Version(a.version); !ok || !known || v.Serves(next) {
			continue // an entry of the user's that is gone, or cannot be read, says nothing
		}
		compatible := []string{}
		for _, v := range entry.Versions {
			if v.Serves(next) {
				compatible = append(compatible, v.Version)
			}
		}
		bad = append(bad, a.name)
		c.Resources = append(c.Resources, ekstypes.InsightResourceDetail{
			Arn: new(a.arn),
			InsightStatus: &ekstypes.InsightStatus{Status: failing, Reason: new(fmt.Sprintf(
				"Add-on version %s is not compatible with Kubernetes v%s.", a.version, next))},
		})
		c.Addons = append(c.Addons, ekstypes.AddonCompatibilityDetail{Name: new(a.name), CompatibleVersions: compatible})
	}
	if len(bad) > 0 {
		c.Status = failing
		c.Reason = "Installed EKS add-on versions are not compatible with next Kubernetes version: " +
			strings.Join(bad, ", ") + "."
	}
	return c
}

func (s state) health(next string) record.InsightCheck {
	c := record.InsightCheck{Name: "Cluster health issues", Version: next, Status: passing,
		Reason: "No cluster health issues detected."}
	issues := s.plane.Issues()
	if len(issues) == 0 {
		return c
	}
	var texts []string
	for _, i := range issues {
		text := string(i.Code)
		if i.Message != nil {
			text += ": " + *i.Message
		}
		texts = append(texts, text)
	}
	c.Status, c.Reason = failing, "Cluster health issues detected: "+strings.Join(texts, "; ")
	c.Resources = []ekstypes.InsightResourceDetail{{
		Arn: new(s.clusterARN), InsightStatus: &ekstypes.InsightStatus{Status: failing, Reason: new(c.Reason)},
	}}
	return c
}

// minorOf returns the minor version in "v1.35.4" or "v1.35.4-eks-1234567"; 0 when it is none.
func minorOf(version string) int {
	rest, ok := strings.CutPrefix(version, "v1.")
	minor, _, dot := strings.Cut(rest, ".")
	n, err := strconv.Atoi(minor)
	if !ok || !dot || err != nil || n < 0 || n > 999 {
		return 0
	}
	return n
}

// firstLine returns the beginning of a message, as far as a reason may have it.
func firstLine(message string) string {
	message, _, _ = strings.Cut(message, "\n")
	return strings.ToValidUTF8(message[:min(len(message), 512)], "")
}

// bounded leaves the paths of a component of which there is room for in a record: first those with a version that a
// check may be about, an equal share of each.
func bounded(all []record.InsightVersion, version string) []record.InsightVersion {
	control, left := kubernetes.MinorNumber(version), maxPaths
	for _, current := range []bool{false, true} {
		for share := left; ; share-- {
			kept := 0
			for _, v := range all {
				if (minorOf(v.Version) == control) == current {
					kept += min(len(v.Paths), share)
				}
			}
			if kept > left {
				continue
			}
			left -= kept
			for i, v := range all {
				if (minorOf(v.Version) == control) == current {
					all[i].Paths = v.Paths[:min(len(v.Paths), share)]
				}
			}
			break
		}
	}
	return all
}
