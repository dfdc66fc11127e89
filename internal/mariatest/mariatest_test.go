package mariatest

import "testing"

// TestMariaDBAvailable is the one test that fails where there is no MariaDB: those that need it are skipped.
func TestMariaDBAvailable(t *testing.T) {
	if _, err := server(); err != nil {
		t.Fatal(err)
	}
}

// TestGaleraAvailable is the one test that fails where there is no Galera.
func TestGaleraAvailable(t *testing.T) {
	if _, err := galera(); err != nil {
		t.Fatal(err)
	}
}
