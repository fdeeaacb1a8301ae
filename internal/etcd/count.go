package etcd

import (
	"bytes"

	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/encoding/protowire"
)

func (e *embeddedServer) compacted() int64 {
	tx := e.etcd.Backend().ReadTx()
	tx.RLock()
	defer tx.RUnlock()
	revision, _ := mvcc.UnsafeReadFinishedCompact(tx)
	return revision
}

// countWeights walks through all revisions that are stored, without holding anybody up for long.
func (e *embeddedServer) countWeights() map[string]int64 {
	const page = 2000
	kv := e.etcd.KV()
	last := kv.Rev()
	kv.Commit() // what is not committed yet would not be in order
	var (
		found = map[string]int64{}
		from  = mvcc.RevToBytes(mvcc.Revision{Main: 1}, mvcc.NewRevBytes())
		end   = mvcc.RevToBytes(mvcc.Revision{Main: last + 1}, mvcc.NewRevBytes())
	)
	for {
		tx := e.etcd.Backend().ConcurrentReadTx()
		tx.RLock()
		revisions, values := tx.UnsafeRange(schema.Key, from, end, page)
		for _, value := range values {
			if cluster := clusterOfRecord(value); cluster != "" {
				found[cluster] += revisionWeight(len(value))
			}
		}
		if n := len(revisions); n > 0 {
			from = append(bytes.Clone(revisions[n-1]), 0)
		}
		tx.RUnlock()
		if len(revisions) < page {
			return found
		}
	}
}

// clusterOfRecord returns whose key a stored mvccpb.KeyValue has; "" when it is no cluster's. The key
// is its first field; the rest, which may be megabytes, is not read.
func clusterOfRecord(record []byte) string {
	field, kind, n := protowire.ConsumeTag(record)
	if n < 0 || field != 1 || kind != protowire.BytesType {
		return ""
	}
	key, n := protowire.ConsumeBytes(record[n:])
	if n < 0 {
		return ""
	}
	rest, ok := bytes.CutPrefix(key, []byte(clusterKeys))
	if !ok {
		return ""
	}
	cluster, _, ok := bytes.Cut(rest, []byte("/"))
	if !ok {
		return ""
	}
	return string(cluster)
}
