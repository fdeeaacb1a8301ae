package clusterinsight

import (
	"fmt"
	"slices"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/kubernetes"
)

// deprecations returns a check for the next version, and one for each later version that removes an API which is used.
func deprecations(used []record.DeprecatedAPI, current, next string) []record.InsightCheck {
	versions := []string{next}
	for _, d := range used {
		if kubernetes.MinorNumber(d.RemovedIn) > kubernetes.MinorNumber(next) && !slices.Contains(versions, d.RemovedIn) {
			versions = append(versions, d.RemovedIn)
		}
	}
	slices.SortFunc(versions, func(a, b string) int { return kubernetes.MinorNumber(a) - kubernetes.MinorNumber(b) })
	var checks []record.InsightCheck
	for _, version := range versions {
		c := record.InsightCheck{Name: "Deprecated APIs removed in Kubernetes v" + version, Version: version,
			Status: passing, Reason: "No deprecated API usage detected within the last 30 days."}
		for _, d := range used {
			if d.RemovedIn != version {
				continue
			}
			// An upgrade to the version that removes the API breaks its clients; one to a version before does not.
			c.Status = warning
			c.Reason = fmt.Sprintf("Deprecated API usage detected within last 30 days and your cluster is on Kubernetes "+
				"v1.%d or lower.", kubernetes.MinorNumber(version)-2)
			if version == next {
				c.Status = failing
				c.Reason = fmt.Sprintf(
					"Deprecated API usage detected within last 30 days and your cluster is on Kubernetes v%s.", current)
			}
			c.APIs = append(c.APIs, deprecation(d))
			c.Resources = append(c.Resources, ekstypes.InsightResourceDetail{
				KubernetesResourceUri: new(resourcePath(d.Group, d.Version, d.Resource)),
				InsightStatus:         &ekstypes.InsightStatus{Status: c.Status},
			})
		}
		checks = append(checks, c)
	}
	return checks
}

// deprecation describes the use of an API as EKS does.
func deprecation(d record.DeprecatedAPI) ekstypes.DeprecationDetail {
	detail := ekstypes.DeprecationDetail{
		Usage: new(resourcePath(d.Group, d.Version, d.Resource)), StopServingVersion: new(d.RemovedIn),
		ClientStats: []ekstypes.ClientStat{},
	}
	if replacement, since := replacementOf(d); replacement != "" {
		detail.ReplacedWith = new(replacement)
		if since != "" {
			detail.StartServingReplacementVersion = new(since)
		}
	}
	for _, c := range d.Clients {
		var requests int32
		for _, n := range c.Days {
			requests += n
		}
		detail.ClientStats = append(detail.ClientStats, ekstypes.ClientStat{
			UserAgent: new(c.UserAgent), LastRequestTime: new(c.Last), NumberOfRequestsLast30Days: requests,
		})
	}
	return detail
}

// resourcePath returns the path of a resource in the API.
func resourcePath(group, version, resource string) string {
	if group == "" {
		return "/api/" + version + "/" + resource
	}
	return "/apis/" + group + "/" + version + "/" + resource
}

// replacementOf returns the path of the API that replaces another one, and the minor version that introduced it, as the
// types of Kubernetes have them; empty where they have none.
func replacementOf(d record.DeprecatedAPI) (path, since string) {
	resource, subresource, isSub := strings.Cut(d.Resource, "/")
	version := schema.GroupVersion{Group: d.Group, Version: d.Version}
	for kind := range scheme.Scheme.KnownTypes(version) {
		if plural, _ := meta.UnsafeGuessKindToResource(version.WithKind(kind)); plural.Resource != resource {
			continue
		}
		object, err := scheme.Scheme.New(version.WithKind(kind))
		if err != nil {
			return "", ""
		}
		to := schema.GroupVersionKind{Group: d.Group, Version: "v1", Kind: kind} // of betas that became stable
		if deprecated, ok := object.(interface {
			APILifecycleReplacement() schema.GroupVersionKind
		}); ok {
			to = deprecated.APILifecycleReplacement()
		} else if !scheme.Scheme.Recognizes(to) {
			return "", ""
		}
		plural, _ := meta.UnsafeGuessKindToResource(to)
		path = resourcePath(to.Group, to.Version, plural.Resource)
		if isSub {
			path += "/" + subresource
		}
		if object, err = scheme.Scheme.New(to); err != nil {
			return path, ""
		}
		if introduced, ok := object.(interface{ APILifecycleIntroduced() (major, minor int) }); ok {
			_, minor := introduced.APILifecycleIntroduced()
			since = fmt.Sprintf("1.%d", minor)
		}
		return path, since
	}
	return "", ""
}
