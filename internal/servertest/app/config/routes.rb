Rails.application.routes.draw do
  resources :orders, only: %i[index show create]
  get "report", to: "reports#show"
  get "stock", to: "stock#show"
end
