//go:build linux

package networkpolicyagent

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	mdnetlink "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/coracle-eks/coracle/internal/networkpolicy"
)

// tableName is that of the agent's table.
const tableName = "aws-network-policy"

// Priorities of the chains. Upstream's programs see what a pod sends before kube-proxy translates its destination, and
// what it receives after the translation of its source.
var (
	beforeTranslation = nftables.ChainPriorityMangle
	afterTranslation  = nftables.ChainPriorityConntrackHelper
)

// kernel is the node's network namespace.
type kernel struct {
	flows uint16 // the group of flow logs

	// built has the names of the chains that are complete, by those in the rules, of one family, with or without logs.
	built    map[string]string
	family   nftables.TableFamily
	logFlows bool
}

// Bounds of a transaction, in bytes and messages, about. A machine has a user namespace, in which nobody may have
// larger buffers than net.core.wmem_max and rmem_max say: 208 KiB on most hosts, and each message is acknowledged.
const maxBatch, maxMessages = 64 << 10, 64

func connect() (*nftables.Conn, error) {
	conn, err := nftables.New(
		nftables.WithSockOptions(func(c *mdnetlink.Conn) error { return c.SetWriteBuffer(bufferSize) },
			func(c *mdnetlink.Conn) error { return c.SetReadBuffer(bufferSize) }))
	if err != nil {
		return nil, fmt.Errorf("nftables: %w", err)
	}
	return conn, nil
}

// bufferSize is that of the buffers, which every host allows.
const bufferSize = 208 << 10

// remove deletes the tables that an agent has left.
func (*kernel) remove() error {
	conn, err := connect()
	if err != nil {
		return err
	}
	for _, family := range []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6} {
		table := &nftables.Table{Name: tableName, Family: family}
		conn.AddTable(table) // so that there is one to delete
		conn.DelTable(table)
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("delete nftables table %s: %w", tableName, err)
	}
	return nil
}

// replace makes the table what the rules say. No packet sees half of it: chains are written in parts, and the base
// chains lead to them when they are complete. All rules but those of a refusedError are enforced.
func (k *kernel) replace(r *ruleset) error {
	conn, err := connect()
	if err != nil {
		return err
	}
	w := &writer{conn: conn, flows: k.flows, rules: r, epoch: rand.Text(),
		table: &nftables.Table{Name: tableName, Family: nftables.TableFamilyIPv4}}
	if r.node.Is6() {
		w.table.Family = nftables.TableFamilyIPv6
	}
	if k.built == nil || k.family != w.table.Family || k.logFlows != r.logFlows {
		k.built, k.family, k.logFlows = map[string]string{}, w.table.Family, r.logFlows
	}
	refused, err := k.replaceWith(w)
	if err != nil {
		k.built = nil // there may be another table meanwhile
		return fmt.Errorf("nftables table %s: %w", tableName, err)
	}
	if len(refused) > 0 {
		return refused
	}
	return nil
}

// replaceWith returns the errors of chains that the kernel has refused.
func (k *kernel) replaceWith(w *writer) (refused refusedError, err error) {
	w.conn.AddTable(w.table)
	if err := w.flush(); err != nil {
		return nil, err
	}
	targets := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(w.rules.chains)) {
		if k.built[name] == "" {
			if err := w.buildChain(name, w.rules.chains[name]); err != nil {
				refused = append(refused, fmt.Errorf("chain %s, whose pods have no connections: %w", name, err))
				if targets[name], err = w.buildClosed(name); err != nil {
					return nil, err
				}
				continue
			}
			k.built[name] = w.called(name)
		}
		targets[name] = k.built[name]
	}
	if err := w.switchTo(targets); err != nil {
		return nil, err
	}
	maps.DeleteFunc(k.built, func(name, _ string) bool { return targets[name] == "" })
	if err := w.collect(targets); err != nil {
		refused = append(refused, fmt.Errorf("delete earlier rules: %w", err))
	}
	return refused, nil
}

// writer writes a table.
type writer struct {
	conn  *nftables.Conn
	table *nftables.Table
	rules *ruleset
	flows uint16
	epoch string // makes names unique: what an earlier writer has left stays until the base chains lead elsewhere
	sets  uint32 // number of them

	bytes, messages int   // of the transaction, about
	err             error // of an earlier part of a chain
}

// called returns the name of a chain in the kernel.
func (w *writer) called(name string) string { return name + "-" + w.epoch }

// count counts a message, and writes the transaction when it has enough.
func (w *writer) count(bytes int) {
	w.bytes += bytes
	if w.messages++; w.bytes >= maxBatch || w.messages >= maxMessages {
		w.err = cmp.Or(w.err, w.conn.Flush())
		w.bytes, w.messages = 0, 0
	}
}

// flush writes what is left, and returns the first error since the last call.
func (w *writer) flush() error {
	err := cmp.Or(w.err, w.conn.Flush())
	w.bytes, w.messages, w.err = 0, 0, nil
	return err
}

func (w *writer) buildChain(name string, d direction) error {
	return cmp.Or(w.writeChain(w.called(name), d), w.flush())
}

// buildClosed writes a chain that lets nothing pass in the place of one, and returns its name.
func (w *writer) buildClosed(name string) (string, error) {
	closed := w.called(name) + "-closed"
	return closed, cmp.Or(w.writeChain(closed, direction{isolated: true}), w.flush())
}

// switchTo makes the base chains lead to chains that are complete, by their names in the rules.
func (w *writer) switchTo(targets map[string]string) error {
	egress, err := w.addLinks("egress", w.rules.egress, targets)
	if err != nil {
		return err
	}
	ingress, err := w.addLinks("ingress", w.rules.ingress, targets)
	if err := cmp.Or(err, w.flush()); err != nil {
		return err
	}
	w.writeBase("egress", nftables.ChainHookPrerouting, beforeTranslation, destination(w.six()), expr.MetaKeyIIFNAME,
		egress)
	w.writeBase("ingress", nftables.ChainHookPostrouting, afterTranslation, source(w.six()), expr.MetaKeyOIFNAME, ingress)
	return w.flush()
}

// collect deletes what the base chains do not lead to, but for some chains.
func (w *writer) collect(used map[string]string) error {
	kept := map[string]bool{w.linksOf("egress"): true, w.linksOf("ingress"): true}
	for _, chain := range used {
		kept[chain], kept[chain+adminSuffix], kept[chain+baselineSuffix] = true, true, true
	}
	chains, err := w.conn.ListChainsOfTableFamily(w.table.Family)
	if err != nil {
		return err
	}
	chains = slices.DeleteFunc(chains, func(c *nftables.Chain) bool {
		return c.Table.Name != tableName || c.Hooknum != nil || kept[c.Name]
	})
	sets, err := w.conn.GetSets(w.table)
	if err != nil {
		return err
	}
	for _, c := range chains {
		c.Table = w.table
		w.conn.FlushChain(c)
		w.count(smallMessage)
	}
	for _, s := range sets {
		if owner, _, _ := strings.Cut(s.Name, setSeparator); !kept[owner] {
			s.Table = w.table
			w.conn.DelSet(s)
			w.count(smallMessage)
		}
	}
	for _, c := range chains {
		w.conn.DelChain(c)
		w.count(smallMessage)
	}
	return w.flush()
}

func (w *writer) six() bool { return w.rules.node.Is6() }

// linksOf returns what the names of the sets of links begin with.
func (w *writer) linksOf(base string) string { return w.called(base + "-links") }

// addLinks adds a set that leads from the interfaces of pods to their chains.
func (w *writer) addLinks(base string, links, targets map[string]string) (*nftables.Set, error) {
	set := w.newSet(w.linksOf(base), nftables.TypeIFName, false)
	set.IsMap, set.DataType = true, nftables.TypeVerdict
	var elements []nftables.SetElement
	for _, l := range slices.Sorted(maps.Keys(links)) {
		elements = append(elements, nftables.SetElement{Key: linkName(l),
			VerdictData: &expr.Verdict{Kind: expr.VerdictGoto, Chain: targets[links[l]]}})
	}
	return set, w.addSet(set, elements)
}

// writeBase writes a base chain, which leads from the interfaces of pods to their chains. What is known of a connection
// is decided when it begins. The node may always reach its pods, and they the node, as upstream has it.
func (w *writer) writeBase(name string, hook *nftables.ChainHook, priority *nftables.ChainPriority,
	other *expr.Payload, link expr.MetaKey, set *nftables.Set) {
	policy := nftables.ChainPolicyAccept
	base := &nftables.Chain{Name: name, Table: w.table, Type: nftables.ChainTypeFilter, Hooknum: hook,
		Priority: priority, Policy: &policy}
	w.conn.AddChain(base)
	w.conn.FlushChain(base)
	known := expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED
	w.addRule(name, []expr.Any{&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(known),
			Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)}, accept()})
	if w.six() { // neighbor discovery among it
		w.addRule(name, protocolIs(unix.IPPROTO_ICMPV6), []expr.Any{accept()})
	}
	w.addRule(name, []expr.Any{other, equals(w.rules.node.AsSlice()), accept()})
	w.addRule(name, []expr.Any{&expr.Meta{Key: link, Register: 1},
		&expr.Lookup{SourceRegister: 1, DestRegister: 0, IsDestRegSet: true, SetName: set.Name, SetID: set.ID}})
}

// Suffixes of chains that the chain of pods jumps to.
const adminSuffix, baselineSuffix = "-admin", "-baseline"

// writeChain adds the chain of pods with the same policies.
func (w *writer) writeChain(name string, d direction) error {
	w.conn.AddChain(&nftables.Chain{Name: name, Table: w.table})
	w.count(smallMessage)
	kind := "ingress"
	other := source(w.six())
	if name[:len("egress")] == "egress" {
		kind, other = "egress", destination(w.six())
	}
	if err := w.writeTier(name, adminSuffix, d.admin, other, kind, "ADMIN"); err != nil {
		return err
	}
	for _, r := range d.allow {
		if err := w.addRules(name, other, r, append(w.logFlow(kind, "ACCEPT", "NETWORK_POLICY"), accept())); err != nil {
			return err
		}
	}
	if err := w.writeTier(name, baselineSuffix, d.baseline, other, kind, "BASELINE"); err != nil {
		return err
	}
	switch {
	case d.isolated:
		w.addRule(name, w.logFlow(kind, "DENY", "NETWORK_POLICY"), drop())
	case d.deny:
		w.addRule(name, w.logFlow(kind, "DENY", "DEFAULT"), drop())
	}
	return nil // the base chain accepts what is left
}

// writeTier adds the rules of ClusterNetworkPolicies of a tier, in a chain that the chain of the pods jumps to: what
// passes comes back.
func (w *writer) writeTier(name, suffix string, rules []clusterRule, other *expr.Payload, kind, tier string) error {
	if len(rules) == 0 {
		return nil
	}
	w.conn.AddChain(&nftables.Chain{Name: name + suffix, Table: w.table})
	w.count(smallMessage)
	for _, r := range rules {
		verdict := []expr.Any{&expr.Verdict{Kind: expr.VerdictReturn}}
		switch r.action {
		case networkpolicy.Accept:
			verdict = append(w.logFlow(kind, "ACCEPT", tier), accept())
		case networkpolicy.Deny:
			verdict = append(w.logFlow(kind, "DENY", tier), drop()...)
		}
		if err := w.addRules(name+suffix, other, r.rule, verdict); err != nil {
			return err
		}
	}
	w.addRule(name, []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: name + suffix}})
	return nil
}

// addRules adds a rule of the kernel for one of ours.
func (w *writer) addRules(chain string, other *expr.Payload, r rule, verdict []expr.Any) error {
	match, err := w.matchAddresses(chain, other, r.addresses)
	if err != nil {
		return err
	}
	if r.protocol != 0 {
		match = append(match, protocolIs(r.protocol)...)
	}
	ports, err := w.matchPorts(chain, r.ports)
	if err != nil {
		return err
	}
	w.addRule(chain, match, ports, verdict)
	return nil
}

// logFlow sends the beginning of a packet to the agent.
func (w *writer) logFlow(kind, verdict, tier string) []expr.Any {
	if !w.rules.logFlows {
		return nil
	}
	return []expr.Any{&expr.Log{Key: 1<<unix.NFTA_LOG_GROUP | 1<<unix.NFTA_LOG_PREFIX | 1<<unix.NFTA_LOG_SNAPLEN,
		Group: w.flows, Snaplen: flowBytes, Data: []byte(kind + " " + verdict + " " + tier)}}
}

func (w *writer) addRule(chain string, parts ...[]expr.Any) {
	w.conn.AddRule(&nftables.Rule{Table: w.table, Chain: &nftables.Chain{Name: chain, Table: w.table},
		Exprs: slices.Concat(parts...)})
	w.count(largeMessage)
}

// setSeparator is in the name of a set, after that of its chain.
const setSeparator = "."

func (w *writer) newSet(chain string, key nftables.SetDatatype, interval bool) *nftables.Set {
	w.sets++
	return &nftables.Set{Table: w.table, ID: w.sets, Name: fmt.Sprint(chain, setSeparator, w.sets), KeyType: key,
		Interval: interval}
}

// messageElements is the number of elements that fit into one netlink attribute of 64 KiB. It is even: the ends of an
// interval are in one message.
const messageElements = 400

// Sizes of messages in bytes: of most, of rules, and of an element.
const smallMessage, largeMessage, elementSize = 256, 1024, 128

func (w *writer) addSet(s *nftables.Set, elements []nftables.SetElement) error {
	if err := w.conn.AddSet(s, nil); err != nil {
		return err
	}
	w.count(smallMessage)
	for part := range slices.Chunk(elements, messageElements) {
		if err := w.conn.SetAddElements(s, part); err != nil {
			return err
		}
		w.count(len(part) * elementSize)
	}
	return nil
}

// matchAddresses matches packets whose other end is in the spans.
func (w *writer) matchAddresses(chain string, other *expr.Payload, spans []span) ([]expr.Any, error) {
	if isAll(spans) {
		return nil, nil
	}
	if len(spans) == 1 && spans[0].first == spans[0].last {
		return []expr.Any{other, equals(spans[0].first.AsSlice())}, nil
	}
	key := nftables.TypeIPAddr
	if w.six() {
		key = nftables.TypeIP6Addr
	}
	interval := slices.ContainsFunc(spans, func(s span) bool { return s.first != s.last })
	var elements []nftables.SetElement
	for _, s := range spans {
		elements = append(elements, nftables.SetElement{Key: s.first.AsSlice()})
		if after := s.last.Next(); interval && after.IsValid() {
			elements = append(elements, nftables.SetElement{Key: after.AsSlice(), IntervalEnd: true})
		}
	}
	set := w.newSet(chain, key, interval)
	return []expr.Any{other, &expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID}},
		w.addSet(set, elements)
}

// matchPorts matches packets whose destination port is in the spans; none are all.
func (w *writer) matchPorts(chain string, spans []portSpan) ([]expr.Any, error) {
	load := &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
	bytesOf := binaryutil.BigEndian.PutUint16
	switch {
	case len(spans) == 0:
		return nil, nil
	case len(spans) == 1 && spans[0].first == spans[0].last:
		return []expr.Any{load, equals(bytesOf(spans[0].first))}, nil
	case len(spans) == 1:
		return []expr.Any{load, &expr.Range{Op: expr.CmpOpEq, Register: 1, FromData: bytesOf(spans[0].first),
			ToData: bytesOf(spans[0].last)}}, nil
	}
	var elements []nftables.SetElement
	for _, s := range spans {
		elements = append(elements, nftables.SetElement{Key: bytesOf(s.first)})
		if s.last < math.MaxUint16 {
			elements = append(elements, nftables.SetElement{Key: bytesOf(s.last + 1), IntervalEnd: true})
		}
	}
	// Of intervals also where they are ports: a set of the kernel without takes time with the square of their number.
	set := w.newSet(chain, nftables.TypeInetService, true)
	return []expr.Any{load, &expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID}}, w.addSet(set, elements)
}

func protocolIs(number uint8) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, equals([]byte{number})}
}

func equals(data []byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data} }

func drop() []expr.Any { return []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}} }

func accept() expr.Any { return &expr.Verdict{Kind: expr.VerdictAccept} }

// source and destination load the address of a packet's end.
func source(six bool) *expr.Payload {
	if six {
		return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 8, Len: 16}
	}
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4}
}

func destination(six bool) *expr.Payload {
	if six {
		return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 24, Len: 16}
	}
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4}
}

// linkName returns a link's name as the kernel compares it.
func linkName(name string) []byte {
	return append([]byte(name), make([]byte, unix.IFNAMSIZ-len(name))...)
}
