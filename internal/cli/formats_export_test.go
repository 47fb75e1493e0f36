package cli

// RecordFormats returns the names of all formats of record.
func RecordFormats() []string { return formatNames(recordFormats()) }

// ReportFormats returns the names of all formats of report.
func ReportFormats() []string { return formatNames(reportFormats(nil)) }

func formatNames(list []format) (names []string) {
	for _, f := range list {
		names = append(names, f.name)
	}
	return names
}
