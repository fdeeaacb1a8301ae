package networkpolicyagent

import (
	"crypto/sha1" //nolint:gosec // as the CNI plugin derives the names of interfaces
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// ruleset is what the kernel is to enforce.
type ruleset struct {
	node   netip.Addr
	chains map[string]direction // by name, which follows from the content
	// ingress and egress have the names of chains by that of an interface.
	ingress, egress map[string]string
	logFlows        bool
}

// vethPrefixes are those of the host's end of the interfaces of pods; the second is of pods with security groups.
var vethPrefixes = []string{"eni", "vlan"}

// linksOf returns the names that the CNI plugin gives the host's end of a pod's interface.
func linksOf(pod podRef) (names []string) {
	sum := sha1.Sum([]byte(pod.Namespace + "." + pod.Name)) //nolint:gosec // see the import
	for _, prefix := range vethPrefixes {
		names = append(names, prefix+hex.EncodeToString(sum[:])[:11])
	}
	return names
}

// design returns the rules for the pods of a node.
func design(node netip.Addr, pods map[podRef]policies, logFlows bool) *ruleset {
	r := &ruleset{node: node, chains: map[string]direction{}, ingress: map[string]string{}, egress: map[string]string{},
		logFlows: logFlows}
	for pod, p := range pods {
		for _, link := range linksOf(pod) {
			r.add(r.ingress, "ingress", link, p.ingress)
			r.add(r.egress, "egress", link, p.egress)
		}
	}
	return r
}

func (r *ruleset) add(to map[string]string, kind, link string, d direction) {
	if !d.decides() {
		return
	}
	name := kind + "-" + digestOf(fmt.Sprint(d))
	r.chains[name] = d
	to[link] = name
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// digest identifies the rules: chains are named after their content.
func (r *ruleset) digest() string {
	var b strings.Builder
	fmt.Fprintln(&b, r.node, r.logFlows)
	for _, links := range []map[string]string{r.ingress, r.egress} {
		for _, link := range slices.Sorted(maps.Keys(links)) {
			fmt.Fprintln(&b, link, links[link])
		}
	}
	return digestOf(b.String())
}
