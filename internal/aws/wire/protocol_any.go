package wire

import (
	"net/http"
	"reflect"
)

// anyProtocol is that of a service whose clients have changed their protocol over time, each to another: a request says
// by its headers which it speaks. For CloudWatch the SDK for Go, the AWS CLI and boto3 send rpcv2Cbor, the SDK for
// JavaScript awsJson1.0, and what is older than 2025 awsQuery.
type anyProtocol struct{}

func spokenIn(r *request) protocol {
	switch {
	case isCBOR(r):
		return rpcCBOR{}
	case r.Header.Get("X-Amz-Target") != "":
		return awsJSON{}
	default:
		return query{}
	}
}

func (anyProtocol) operation(m *Mux, service *Service, r *request) (*operation, error) {
	return spokenIn(r).operation(m, service, r)
}

func (anyProtocol) decodeRequest(op *operation, r *request, in reflect.Value) error {
	return spokenIn(r).decodeRequest(op, r, in)
}

func (anyProtocol) decodedSize(r *request) int64 { return spokenIn(r).decodedSize(r) }

func (anyProtocol) encodeResponse(b []byte, op *operation, r *request, out reflect.Value, header http.Header) (
	[]byte, int) {
	return spokenIn(r).encodeResponse(b, op, r, out, header)
}

func (anyProtocol) encodeError(b []byte, service *Service, r *request, f *failure, header http.Header) []byte {
	return spokenIn(r).encodeError(b, service, r, f, header)
}
