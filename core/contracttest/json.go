package contracttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// extra is the member that the suite adds to JSON bodies.
const extra = "x_contract"

// withMember returns a JSON object with one more member at its end, called extra. The value is JSON, valid or not.
func withMember(object []byte, value string) []byte {
	inner := bytes.TrimSuffix(bytes.TrimSpace(object), []byte("}"))
	comma := ","
	if bytes.HasSuffix(bytes.TrimSpace(inner), []byte("{")) {
		comma = ""
	}
	return fmt.Appendf(nil, `%s%s"%s":%s}`, inner, comma, extra, value)
}

// reordered returns the object with its members the other way round and with white space between them: another JSON
// library, or the same one after a restart, may write the same command so.
func reordered(object []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	var members []string
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		members = append(members, fmt.Sprintf("\n\t%s : %s", quoted, value))
	}
	slices.Reverse(members)
	return []byte(" {" + strings.Join(members, " ,") + "\r\n}\n"), nil
}
