module session

go 1.24

require (
	github.com/confluentinc/confluent-kafka-go/v2 v2.11.1
	steps v0.0.0
)

replace steps => ../steps_go
